"""The patch that `diagnose run --apply` hands to the training process: its values, applied and refused.

A key that cannot be applied is refused, with one line on stderr; training goes on without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..config import rank_and_world_size
from ..guard import guarded, quietly, say
from ..protocol import PATCH
from .allowed import holds, variable_text
from .reasons import PATCH as OF_PATCH
from .reasons import Reason, Refusal

_NEVER_MADE = {
    "training_arguments": "no TrainingArguments was made",
    "model_kwargs": "no model was made by from_pretrained or from_config",
    "dataloader": "no DataLoader was made",
    "collator": "no Trainer of transformers asked for its training data",
    "ddp": "no DistributedDataParallel was made",
    "optimizer": "no optimizer of torch.optim was made",
    "torch": "no optimizer step of torch.optim was seen",
    "gc": "no optimizer step of torch.optim was seen",
    "accelerator": "no Accelerator was made",
}
_LONGEST = 200


class _Refusal(NamedTuple):
    """A refusal as the record has it."""

    because: str
    binds: str = OF_PATCH
    unless_set: str | None = None
    value: Any = None  # any number above 0 is refused like the requested one


class JobPatch:
    """The patch of one process.

    Args:
        wanted: the values by target and key, allowed ones only.
        refused: what `diagnose run` refused and reported before the start.
        expected: the gain predicted for the patch, and the step time that it is predicted from.
    """

    def __init__(
        self,
        wanted: Mapping[str, Mapping[str, Any]],
        refused: Iterable[Mapping[str, str]] = (),
        expected: Mapping[str, Any] | None = None,
    ) -> None:
        self._wanted = {target: dict(values) for target, values in wanted.items()}
        self._applied: dict[str, dict[str, Any]] = {}
        self._refused = {(each["target"], each["key"]): _Refusal(each["because"]) for each in refused}
        self._said = set(self._refused)
        self._expected = expected
        self._awaited: dict[tuple[str, str], Refusal] = {}
        self._changed_since: dict[tuple[str, str], Callable[[], Refusal | None]] = {}

    def values(self, target: str) -> dict[str, Any]:
        """The values requested for `target`, by key."""
        return dict(self._wanted.get(target, {}))

    def applied(self, target: str, keys: Iterable[str]) -> None:
        """Note that the values of `keys` are in use."""
        for key in keys:
            self._applied.setdefault(target, {})[key] = self._wanted[target][key]

    def refuse(self, target: str, key: str, refusal: Refusal) -> None:
        """Record and print that the value of `key` is not used, at least here; the first reason counts."""
        asked = self._wanted.get(target, {}).get(key)
        value = None if type(asked) is int and asked else asked
        told = _Refusal(_one_line(refusal.because), refusal.binds, refusal.unless_set or None, value)
        self._refused.setdefault((target, key), told)
        self._say(target, key, refusal.because)

    def is_refused(self, target: str, key: str) -> bool:
        """Whether the key was refused before."""
        return (target, key) in self._refused

    def take_back(self, target: str, key: str, refusal: Refusal) -> None:
        """Refuse a value that was in use."""
        self._applied.get(target, {}).pop(key, None)
        self.refuse(target, key, refusal)

    def awaits(self, target: str, key: str, refusal: Refusal) -> None:
        """Set the reason to report if the event that the value waits for never comes."""
        self._awaited[target, key] = refusal

    def holds(self, target: str, key: str, changed_since: Callable[[], Refusal | None]) -> None:
        """Call `changed_since` before the patch is reported; it returns why a used value no longer holds, or None."""
        self._changed_since[target, key] = changed_since

    def facts(self) -> dict[str, object]:
        """`applied`, `refused`, `expected` for capture-rank{R}.json; a key that nothing asked for is refused."""
        for (target, key), changed_since in self._changed_since.items():
            refusal = quietly(changed_since) if key in self._applied.get(target, {}) else None
            if isinstance(refusal, Refusal):
                self.take_back(target, key, refusal)
        for target, values in self._wanted.items():
            for key in values:
                if target == "environment":
                    self._check_variable(key)
                if key not in self._applied.get(target, {}) and not self.is_refused(target, key):
                    self.refuse(target, key, self._awaited.get((target, key)) or _never_made(target))
        return {
            "applied": {target: dict(values) for target, values in self._applied.items() if values},
            "refused": [
                {"target": target, "key": key, **told._asdict()} for (target, key), told in self._refused.items()
            ],
            "expected": None if self._expected is None else dict(self._expected),
        }

    def _check_variable(self, key: str) -> None:
        if holds(variable_text(self._wanted["environment"][key]), os.environ.get(key)):
            self.applied("environment", [key])

    def _say(self, target: str, key: str, because: str) -> None:
        if (target, key) not in self._said:
            self._said.add((target, key))
            if not quietly(lambda: rank_and_world_size()[0]):  # one rank speaks for all
                say(f"not applied: {key} ({_one_line(because)})")


def job_patch() -> JobPatch | None:
    """The patch of this process, read from the environment on first use; None without one."""
    global _patch, _is_read
    if not _is_read:
        _is_read = True
        guarded(_read, "the patch is not applied")
    return _patch


def facts() -> dict[str, object]:
    """The applied and the refused changes; null and empty in a run without a patch."""
    patch = job_patch()
    return {"applied": None, "refused": [], "expected": None} if patch is None else patch.facts()


def _never_made(target: str) -> Refusal:
    made = _NEVER_MADE.get(target)
    return Refusal(Reason.OTHER_VARIABLE) if made is None else Refusal(Reason.NEVER_MADE, made)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


def _read() -> None:
    global _patch
    text = os.environ.get(PATCH)
    if text:
        given = json.loads(text)
        _patch = JobPatch(given["set"], given.get("refused", ()), given.get("expected"))


_patch: JobPatch | None = None
_is_read = False
