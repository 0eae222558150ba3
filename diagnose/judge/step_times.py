"""The times of every step of a run, as few as a picture needs, with their extremes."""

import numpy as np

from diagnose.diagnosis import StepTimes
from diagnose.judge.case import Case
from diagnose.trace.light_steps import every_step

MOST_GROUPS = 400
_LEAST = 8  # fewer steps are told in words


def step_times(case: Case) -> StepTimes | None:
    """The steps of the first rank that timed them all; None if none did, or they are few."""
    told = ((m.timeline.rank, every_step(m.record)) for m in case.measured if case.only in (None, m.timeline.rank))
    rank, every = next(((rank, found) for rank, found in told if found is not None), (0, None))
    if every is None or len(every.ns) < _LEAST or every.profiled.all():
        return None
    groups = np.array_split(np.arange(len(every.ns)), min(len(every.ns), MOST_GROUPS))
    profiled = every.number[every.profiled]
    return StepTimes(
        rank=rank,
        first_step=tuple(int(every.number[group[0]]) for group in groups),
        last_step=tuple(int(every.number[group[-1]]) for group in groups),
        shortest_ns=tuple(int(every.ns[group].min()) for group in groups),
        longest_ns=tuple(int(every.ns[group].max()) for group in groups),
        profiled=(int(profiled[0]), int(profiled[-1])) if len(profiled) else None,
        median_ns=int(np.median(every.ns[~every.profiled])),
    )
