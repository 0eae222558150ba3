"""The times of every step of a run, as few as a picture needs, with their extremes."""

import math
from collections.abc import Sequence

import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.diagnosis import StepTimes
from diagnose.judge.case import Case
from diagnose.trace.light_steps import every_step

MOST_GROUPS = 400  # and some more at the borders of windows
_LEAST = 8  # fewer steps are told in words


def step_times(case: Case) -> StepTimes | None:
    """The steps of the first rank that timed them all; None if none did, or they are few."""
    told = ((m.timeline.rank, every_step(m.record)) for m in case.measured if case.only in (None, m.timeline.rank))
    rank, every = next(((rank, found) for rank, found in told if found is not None), (0, None))
    if every is None or len(every.ns) < _LEAST or every.profiled.all():
        return None
    runs = _runs(every.profiled)
    groups = _groups(runs, len(every.ns))
    windows = [run for run in runs if every.profiled[run[0]]]
    return StepTimes(
        rank=rank,
        first_step=tuple(int(every.number[group[0]]) for group in groups),
        last_step=tuple(int(every.number[group[-1]]) for group in groups),
        shortest_ns=tuple(int(every.ns[group].min()) for group in groups),
        longest_ns=tuple(int(every.ns[group].max()) for group in groups),
        profiled=tuple((int(every.number[window[0]]), int(every.number[window[-1]])) for window in windows),
        median_ns=int(np.median(every.ns[~every.profiled])),
    )


def _runs(profiled: Mask) -> list[Ints]:
    """The positions of neighbours that are all in a window, or all in none."""
    return np.split(np.arange(len(profiled)), np.flatnonzero(np.diff(profiled)) + 1)


def _groups(runs: Sequence[Ints], steps: int) -> list[Ints]:
    """The positions of each group: single steps of a run of few, else as many to a group as it takes."""
    each = max(math.ceil(steps / MOST_GROUPS), 1)
    return [group for run in runs for group in np.array_split(run, math.ceil(len(run) / each))]
