"""The patch that `diagnose run --apply` hands to the training process: what is asked for, applied and refused.

A key that cannot be applied is refused, with one line on stderr; training goes on without it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any

from .apply_allowed import VARIABLE, holds, variable_text
from .config import rank_and_world
from .guard import guarded, quietly, say, told
from .interrupts import let_out
from .session import session

Choose = Callable[["Asked", "dict[str, Any]"], "dict[str, Any]"]

_NEVER_MADE = {
    "training_arguments": "no TrainingArguments was made",
    "model_kwargs": "no model was made by from_pretrained or from_config",
    "dataloader": "no DataLoader was made",
    "ddp": "no DistributedDataParallel was made",
}
_LONGEST = 200


class Asked:
    """One process's patch.

    Args:
        wanted: the values by target and key, allowed ones only.
        refused: what `diagnose run` refused and said before the start.
        expected: what was predicted of the patch, and from which step time.
    """

    def __init__(
        self,
        wanted: Mapping[str, Mapping[str, Any]],
        refused: Iterable[Mapping[str, str]] = (),
        expected: Mapping[str, Any] | None = None,
    ) -> None:
        self._wanted = {target: dict(values) for target, values in wanted.items()}
        self._applied: dict[str, dict[str, Any]] = {}
        self._refused = {(entry["target"], entry["key"]): entry["because"] for entry in refused}
        self._said = set(self._refused)
        self._expected = expected

    def of(self, target: str) -> dict[str, Any]:
        """The values for `target`; none in a process that is not to be captured, such as a forked worker."""
        return dict(self._wanted.get(target, {})) if session() is not None else {}

    def applied(self, target: str, keys: Iterable[str]) -> None:
        """Note that the values of `keys` are in use."""
        for key in keys:
            self._applied.setdefault(target, {})[key] = self._wanted[target][key]

    def refuse(self, target: str, key: str, because: str) -> None:
        """Note and say that the value of `key` is not used, here at least; the first reason counts."""
        self._refused.setdefault((target, key), _one_line(because))
        self._say(target, key, because)

    def is_refused(self, target: str, key: str) -> bool:
        """Whether the key was refused before."""
        return (target, key) in self._refused

    def take_back(self, target: str, key: str, because: str) -> None:
        """Refuse a value that was in use."""
        self._applied.get(target, {}).pop(key, None)
        self.refuse(target, key, because)

    def facts(self) -> dict[str, object]:
        """`applied`, `refused`, `expected` for capture-rank{R}.json; a key that nothing asked for is refused."""
        refused = dict(self._refused)
        for target, values in self._wanted.items():
            for key in values:
                if target == "environment":
                    self._look_for(key)
                if key not in self._applied.get(target, {}) and (target, key) not in refused:
                    refused[target, key] = _NEVER_MADE.get(target, "the variable was changed on the way or by the job")
                    self._say(target, key, refused[target, key])
        return {
            "applied": {target: dict(values) for target, values in self._applied.items() if values},
            "refused": [{"target": t, "key": k, "because": because} for (t, k), because in refused.items()],
            "expected": None if self._expected is None else dict(self._expected),
        }

    def _look_for(self, key: str) -> None:
        if holds(variable_text(self._wanted["environment"][key]), os.environ.get(key)):
            self.applied("environment", [key])

    def _say(self, target: str, key: str, because: str) -> None:
        if (target, key) not in self._said:
            self._said.add((target, key))
            if not quietly(lambda: rank_and_world()[0]):  # one rank speaks for all
                say(f"not applied: {key} ({_one_line(because)})")


def asked() -> Asked | None:
    """The process's patch, read from the environment on first use; None without one."""
    global _asked, _looked
    if not _looked:
        _looked = True
        guarded(_read, "the patch is not applied")
    return _asked


def facts() -> dict[str, object]:
    """What was applied and refused; null and nothing in a run without a patch."""
    found = asked()
    return {"applied": None, "refused": [], "expected": None} if found is None else found.facts()


def patched_init(kind: Any, target: str, choose: Choose) -> None:
    """Have `kind.__init__` take the values that `choose(asked, arguments)` gives, by parameter.

    `choose` refuses what it leaves out. When the constructor fails with the values, it runs without them.
    """
    found = asked()
    if found is None or not found.of(target) or hasattr(kind.__init__, "__diagnose_apply__"):
        return
    original = kind.__init__

    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        values: dict[str, Any] = {}
        bound: Any = None

        def change() -> None:
            nonlocal values, bound
            values, bound = _changed(original, (self, *args), kwargs, lambda given: choose(found, given))

        if not guarded(change, f"no patch of {kind.__name__}") or not values:
            original(self, *args, **kwargs)
            return
        handled = sys.exc_info()[1]
        try:
            original(*bound.args, **bound.kwargs)
        except Exception as error:
            let_out(error, handled)
            refuse_all(found, target, values, error)
            original(self, *args, **kwargs)
        else:
            found.applied(target, values)

    __init__.__diagnose_apply__ = target  # type: ignore[attr-defined]
    kind.__init__ = __init__


def _changed(original: Any, args: Any, kwargs: Any, choose: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """The values chosen for a call, and the call with them in place."""
    given = signature(original).bind(*args, **kwargs)
    given.apply_defaults()
    values = choose(given.arguments)
    bound = signature(original).bind(*args, **kwargs)
    bound.arguments.update(values)
    return values, bound


def refuse_all(found: Asked, target: str, keys: Iterable[str], error: BaseException) -> None:
    """Refuse `keys` because of what was raised with them."""
    for key in keys:
        found.refuse(target, key, told(error))


def workers_refused(dataset: Any, now: int) -> str:
    """Why worker processes cannot be given to a loader that has `now` of them; empty when they can."""
    torch: Any = sys.modules["torch"]
    if isinstance(dataset, torch.utils.data.IterableDataset):
        return "each worker would repeat the data of an IterableDataset"
    if holds_device_tensors(dataset):
        return "the dataset holds tensors of a device, which workers cannot read"
    import multiprocessing

    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    if not now and method != "fork":
        return f"workers start by {method} here, and this job has none so far: its data may not be picklable"
    return ""


def holds_device_tensors(dataset: Any) -> bool:
    """Whether an attribute of the dataset, or an element of one, is a tensor outside host memory."""
    torch: Any = sys.modules["torch"]
    values = list(getattr(dataset, "__dict__", {}).values())
    for value in list(values):
        if isinstance(value, (list, tuple)):
            values += value[:16]
    return any(isinstance(value, torch.Tensor) and value.device.type != "cpu" for value in values)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


def _read() -> None:
    global _asked
    text = os.environ.get(VARIABLE)
    if text:
        given = json.loads(text)
        _asked = Asked(given["set"], given.get("refused", ()), given.get("expected"))


_asked: Asked | None = None
_looked = False
