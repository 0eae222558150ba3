"""How fast the steps of the ranks are now, and which rank ends them later than the others."""

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
from msgspec.structs import replace

from diagnose.series.timing_log import TimingLog

NOW_STEPS = 20  # samples whose median is the step time now
_BLOCKS = 32  # of the log that hold them, where they are short


def now_s(log: TimingLog) -> float | None:
    """The median of the last step times in seconds; None if none is known."""
    last = _last(log)["duration"][-NOW_STEPS:]
    return median(last) / 1e6 if len(last) else None


def mean_s(log: TimingLog) -> float | None:
    """The mean time of a step of the last loop, with whatever comes between steps; None if none is known."""
    blocks = log.blocks[log.restarts[-1] if log.restarts else 0 :]
    timed = sum(covers * int((us > 0).sum()) for _, covers, us, _ in blocks)
    took_us = sum(covers * int(us.sum()) for _, covers, us, _ in blocks)
    return took_us / timed / 1e6 if timed else None


def late_s(logs: Mapping[int, TimingLog]) -> dict[int, float]:
    """The seconds by which each rank ended a step later than the first of them; empty if no step is known of all.

    It is the last step that all have ended. A log holds when each of its blocks ended, by the clock of its host.
    """
    ended = {rank: (last["step"], last["clock"]) for rank, log in logs.items() if len((last := _last(log))["step"])}
    if len(ended) < max(len(logs), 2):
        return {}
    step = min(steps[-1] for steps, _ in ended.values())
    if step < max(steps[0] for steps, _ in ended.values()):
        return {}
    at = {rank: float(np.interp(step, steps, clock)) for rank, (steps, clock) in ended.items()}
    return {rank: time - min(at.values()) for rank, time in at.items()}


def _last(log: TimingLog) -> Mapping[str, Sequence[float]]:
    """The last samples: the step that each ends with, the microseconds of a step, and the clock at its end."""
    return replace(log, blocks=log.blocks[-_BLOCKS:]).table().values
