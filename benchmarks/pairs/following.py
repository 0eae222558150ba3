"""One kind of job, measured: what is told of it, what its advice does when it is followed, and what that buys."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from advice_jobs.kinds import Kind

from .runs import applied, diagnosed, in_turns, scratch
from .score import OTHERS, Outcome, Ran, Told, same_samples

TRIES = 3


def followed_options(kind: Kind, told: Told) -> dict[str, object]:
    """The options of the job with the advice followed."""
    by_patch = {kind.by_patch[key]: value for key, value in told.patch.items() if key in kind.by_patch}
    return {**kind.slow, **kind.followed, **by_patch}


def missing(kind: Kind) -> tuple[str, ...]:
    """The packages that the kind needs and that are not installed, and what the CPU would have to lack."""
    units = Path("/proc/cpuinfo").read_text().split()
    return (
        *(name for name in kind.needs if importlib.util.find_spec(name) is None),
        *(f"a CPU without {name}" for name in kind.without if name in units),
    )


def measured(kind: Kind, repeats: int, others: float = OTHERS) -> Outcome:
    """The advice, and what it buys; tried again where other processes took the cores."""
    if absent := missing(kind):
        return Outcome(kind, Told(""), missing=absent)
    for _ in range(TRIES):
        with scratch() as folder:
            told, first = diagnosed(kind, folder)
            if not first.crowded(others) and not (told.busy and others < 1):
                return _followed(kind, told, first, repeats, folder, others)
    return Outcome(kind, told, crowded=first.crowded(others))


def _followed(kind: Kind, told: Told, first: Ran, repeats: int, folder: str, others: float) -> Outcome:
    """What befalls who follows the advice."""
    typed, run = applied(kind, told, folder)
    runs, speedups = [first, *([run] if run else [])], []
    for _ in range(repeats + TRIES - 1 if kind.followed and repeats else 0):
        pair = in_turns(kind, followed_options(kind, told), folder)
        runs += pair
        slow, followed = pair
        if slow.step_ns and followed.step_ns and not (slow.crowded(others) or followed.crowded(others)):
            speedups.append(slow.step_ns / followed.step_ns)
        if len(speedups) == repeats or slow.failed or followed.failed:
            break
    failures = tuple(dict.fromkeys(one.failed for one in runs if one.failed and one is not run))
    return Outcome(kind, told, tuple(speedups), typed, same_samples(runs), failures)
