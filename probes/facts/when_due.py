"""The facts of a window, by modules that are only imported when they are due."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..threaded import run_in_thread

if TYPE_CHECKING:
    from ..stacks.sampling import StackSampler


def facts_of(job: object, **known: object) -> dict[str, object]:
    """The result of `record.facts`, whose module is imported in a second thread.

    An import takes a file for missing if an exception interrupts the look at it, and a signal handler of the job raises
    anywhere.
    """
    record: Any = run_in_thread(lambda: import_module(".record", __package__))
    return dict(record.facts(job, **known))


def samples_of(sampler: StackSampler, asked: bool) -> dict[str, object]:
    """The result of `folding.stack_samples`; call it in a second thread, not in the training one."""
    folding: Any = import_module("..stacks.folding", __package__)
    return dict(folding.stack_samples(sampler, asked))
