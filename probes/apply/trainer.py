"""Patches at the Trainer: arguments that bypassed the patch, and values that its data or model rules out."""

from __future__ import annotations

import copy
import sys
from inspect import signature
from typing import Any

from ..guard import described, guarded
from ..hand_over import replace
from ..interrupts import let_out
from . import collator
from .constructors import values_for
from .job_patch import JobPatch, job_patch
from .of_arguments import CHECKPOINTING, NEED_WORKERS, TARGET, WORKERS, Wanted, ruled_out
from .reasons import Reason, Refusal
from .training import constructed, original_value, wanted_of


def install() -> None:
    """Look at every Trainer made from now on; without a patch for its arguments, change nothing."""
    if job_patch() is not None:
        guarded(_install, "the patch is not applied to Trainer")
        guarded(collator.install, "the patch of the padding is not applied")


def _install() -> None:
    patch = job_patch()
    kind: Any = sys.modules["transformers.trainer"].Trainer
    if patch is None or not values_for(patch, TARGET):
        return
    its_own = kind.__init__

    def made(original: Any, trainer: Any, /, *args: Any, **kwargs: Any) -> None:
        given = signature(its_own).bind
        guarded(lambda: _prepare(patch, given(trainer, *args, **kwargs).arguments), "patch not checked")
        original(trainer, *args, **kwargs)

    replace(kind, "__init__", made, "patch not checked", "__diagnose_apply__")


def _prepare(patch: JobPatch, given: dict[str, Any]) -> None:
    arguments = given.get("args")
    if arguments is None or not hasattr(type(arguments), "__dataclass_fields__"):
        return
    wanted = wanted_of(patch, arguments)
    differing = {key: change for key, change in wanted.items() if getattr(arguments, change[0]) != change[1]}
    late = {key: change for key, change in differing.items() if not patch.is_refused(TARGET, key)}
    if late:
        _apply_late(patch, arguments, late)
    for key, (field, value) in wanted.items():
        refusal = ruled_out(field, value, given)
        if refusal and getattr(arguments, field) == value:
            _take_back(patch, arguments, key, field, refusal)


def _apply_late(patch: JobPatch, arguments: Any, wanted: Wanted) -> None:
    """Apply the patch to arguments that were made without it, in the same object; if that fails, take it back."""
    build = getattr(sys.modules["transformers.training_args"].TrainingArguments.__post_init__, "__wrapped__", None)
    if build is None or getattr(arguments, "deepspeed", None):
        _take_all_back(patch, wanted, Refusal(Reason.MADE_BEFORE))
        return
    again = copy.copy(arguments)
    handled = sys.exc_info()[1]
    try:
        constructed(patch, again, build, wanted)
    except Exception as error:
        let_out(error, handled)
        _take_all_back(patch, wanted, Refusal(Reason.RAISES, described(error)))
        return
    vars(arguments).update(vars(again))


def _take_all_back(patch: JobPatch, wanted: Wanted, refusal: Refusal) -> None:
    for key in wanted:
        patch.take_back(TARGET, key, refusal)


def _take_back(patch: JobPatch, arguments: Any, key: str, field: str, refusal: Refusal) -> None:
    if original_value(arguments, field) == getattr(arguments, field):
        return  # the script asks for it too
    names = CHECKPOINTING if field in CHECKPOINTING else (field,)
    for name in (name for name in names if hasattr(arguments, name)):
        setattr(
            arguments, name, bool(original_value(arguments, name)) if names[1:] else original_value(arguments, name)
        )
    patch.take_back(TARGET, key, refusal)
    if field == WORKERS and not getattr(arguments, WORKERS):
        for name in (name for name in NEED_WORKERS if name in values_for(patch, TARGET)):
            setattr(arguments, name, original_value(arguments, name))
            patch.take_back(TARGET, name, Refusal(Reason.NEEDS_WORKERS, WORKERS))
