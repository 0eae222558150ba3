"""The facts of a window, by modules that are only imported when they are due."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..aside import aside

if TYPE_CHECKING:
    from ..stacks.sampling import StackSampler


def facts_of(job: object, **known: object) -> dict[str, object]:
    """As `record.facts`, imported beside the training thread.

    Where a file cannot be looked at, an import takes it for missing, and a signal handler of the job raises anywhere.
    """
    record: Any = aside(lambda: import_module(".record", __package__))
    return dict(record.facts(job, **known))


def samples_of(sampler: StackSampler, asked: bool) -> dict[str, object]:
    """As `folding.stack_samples`; to be called beside the training thread."""
    folding: Any = import_module("..stacks.folding", __package__)
    return dict(folding.stack_samples(sampler, asked))
