"""Pass the values of a patch to the constructors of the job; if they reject them, call them as the job did."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

from ..current_session import session
from ..guard import described, guarded
from ..hand_over import forgive, replace
from ..interrupts import let_out
from .job_patch import JobPatch, job_patch
from .reasons import Reason, Refusal

Choose = Callable[[JobPatch, "dict[str, Any]"], "dict[str, Any]"]
HeldBack = Callable[["dict[str, Any]"], "Callable[[], object]"]
Spelled = Callable[["dict[str, Any]"], "dict[str, Any]"]


def _nothing_held_back(arguments: dict[str, Any]) -> Callable[[], object]:
    return lambda: None


def values_for(patch: JobPatch, target: str) -> dict[str, Any]:
    """The values for `target`; empty in a process that is not to be captured, such as a forked worker."""
    return patch.values(target) if session() is not None else {}


def patched_init(
    kind: Any, target: str, choose: Choose, held_back: HeldBack = _nothing_held_back, spelled: Spelled = dict
) -> None:
    """Have `kind.__init__` take the values that `choose(patch, arguments)` gives, by key of the patch.

    `choose` refuses what it leaves out; `spelled` gives the values by parameter, where keys are none. When the
    constructor fails with the values, it runs without them; `held_back(arguments)` makes the arguments such that they
    can be given twice, and returns what to call in between.
    """
    patch = job_patch()
    if patch is None or not values_for(patch, target):
        return
    its_own = kind.__init__

    def changed(original: Any, made: Any, /, *args: Any, **kwargs: Any) -> None:
        asked: Any = None
        patched: Any = None
        values: dict[str, Any] = {}

        def change() -> None:
            nonlocal asked, patched, values
            asked = signature(its_own).bind(made, *args, **kwargs)
            values = choose(patch, _with_defaults(its_own, asked.arguments))

        def as_asked() -> None:
            if asked is None:
                original(made, *args, **kwargs)
            else:
                original(*asked.args, **asked.kwargs)

        if not guarded(change, f"no patch of {kind.__name__}") or not values:
            as_asked()
            return
        go_back = held_back(asked.arguments)
        handled = sys.exc_info()[1]
        try:
            patched = signature(its_own).bind(*asked.args, **asked.kwargs)
            patched.arguments.update(spelled(values))
            original(*patched.args, **patched.kwargs)
        except Exception as error:
            let_out(error, handled)
            forgive(original)
            refuse_all(patch, target, values, error)
            go_back()
            as_asked()
        else:
            patch.applied(target, values)

    replace(kind, "__init__", changed, f"no patch of {kind.__name__}", "__diagnose_apply__")


def _with_defaults(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, completed by the defaults of those that were left out."""
    given = signature(function).bind_partial()
    given.arguments.update(arguments)
    given.apply_defaults()
    return dict(given.arguments)


def refuse_all(patch: JobPatch, target: str, keys: Iterable[str], error: BaseException) -> None:
    """Refuse `keys` because of the error raised with them."""
    for key in keys:
        patch.refuse(target, key, Refusal(Reason.RAISES, described(error)))
