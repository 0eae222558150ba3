"""Patches of transformers' TrainingArguments, at construction, so that values derived from them follow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..guard import described, guarded, quietly
from ..hand_over import forgive, replace
from ..interrupts import let_out
from .allowed import ALLOWED
from .constructors import values_for
from .job_patch import JobPatch, job_patch
from .of_arguments import TARGET, Wanted, refused, spelled
from .reasons import Reason, Refusal

Build = Callable[[Any], object]


def install() -> None:
    """Patch the arguments made from now on, also of subclasses; without a patch for them, change nothing."""
    if job_patch() is not None:
        guarded(_install, "the patch is not applied to TrainingArguments")


def _install() -> None:
    patch = job_patch()
    kind: Any = sys.modules["transformers.training_args"].TrainingArguments
    if patch is None or not values_for(patch, TARGET):
        return

    def made(original: Any, arguments: Any) -> None:
        wanted = quietly(lambda: wanted_of(patch, arguments))
        if not isinstance(wanted, dict) or not wanted:
            original(arguments)
            return
        constructed(patch, arguments, original, wanted)

    replace(kind, "__post_init__", made, "the patch is not applied to TrainingArguments", "__diagnose_apply__")


def wanted_of(patch: JobPatch, arguments: Any) -> Wanted:
    """The values of the patch that these arguments can take; the others are refused."""
    values = values_for(patch, TARGET)
    wanted: Wanted = {}
    for key in (key for key in ALLOWED[TARGET] if key in values):  # in this order workers come before what needs them
        field, value = spelled(key, values[key], type(arguments).__dataclass_fields__)
        refusal = refused(field, value, arguments, wanted, values)
        if refusal:
            patch.refuse(TARGET, key, refusal)
        elif field is not None:
            wanted[key] = (field, value)
    return wanted


def constructed(patch: JobPatch, arguments: Any, build: Build, wanted: Wanted) -> None:
    """Run `build(arguments)` with as much of `wanted` as it accepts.

    Raises:
        Exception: what `build` raises without any of it.
    """
    before = dict(vars(arguments))
    accepted = dict(wanted)
    if _fails(arguments, build, before, accepted):
        _set(arguments, before, {})
        build(arguments)
        accepted = {}
        for key, change in wanted.items():
            error = _fails(arguments, build, before, {**accepted, key: change})
            if error is None:
                accepted[key] = change
            else:
                patch.refuse(TARGET, key, Refusal(Reason.RAISES, described(error)))
        _set(arguments, before, accepted)
        build(arguments)
    for key, (field, value) in accepted.items():
        if getattr(arguments, field) == value:
            patch.applied(TARGET, [key])
        else:
            patch.refuse(TARGET, key, Refusal(Reason.MADE_OTHERWISE, str(getattr(arguments, field))))
    _before[id(arguments)] = before
    for field, value in wanted.values():
        if before[field] != value:
            _given.setdefault(field, before[field])


def original_value(arguments: Any, field: str) -> Any:
    """The value that the script gave for `field`; for a copy of patched arguments, the one it gave the first time."""
    now = getattr(arguments, field, None)
    before = _before.get(id(arguments), {}).get(field, now)
    return _given.get(field, before) if before == now else before


def _fails(arguments: Any, build: Build, before: dict[str, Any], wanted: Wanted) -> Exception | None:
    _set(arguments, before, wanted)
    handled = sys.exc_info()[1]
    try:
        build(arguments)
    except Exception as error:
        let_out(error, handled)
        forgive(build)
        return error
    return None


def _set(arguments: Any, before: dict[str, Any], wanted: Wanted) -> None:
    vars(arguments).clear()
    vars(arguments).update(before)
    vars(arguments).update(dict(wanted.values()))


_before: dict[int, dict[str, Any]] = {}
_given: dict[str, Any] = {}
