"""The time that the breakdown attributes to the work that a change touches: the part of a gain that needs no replay.

A step is as long as its longest chain of work. If the host is behind, work that overlaps with other work is in that
chain too: shortening it shortens the step, although the breakdown attributes the time to whatever the device waits
for in the end. Such a gain rests on the replay alone; the low end of a prediction leaves it out.
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ids, Ints, Mask, marked, summed
from diagnose.attribution.causes import BEFORE_A_LAUNCH, EXPOSED
from diagnose.metrics import Measured
from diagnose.predict.replay import HostSpeeds, StepChange

WAITING_CALLS = ("sync", "host-to-device")


class Booked(msgspec.Struct, frozen=True):
    """Nanoseconds of the counted steps: kernels and collectives, and idle time by the cause that the host gave."""

    device_ns: float
    idle_ns: Mapping[str, float]

    def unprofiled_ns(self, host_speeds: HostSpeeds) -> float:
        """The whole, with the host at its unprofiled speed."""
        return self.device_ns + sum(ns * host_speeds.of(cause) for cause, ns in self.idle_ns.items())


def booked_on(measured: Measured, change: StepChange) -> Booked:
    """The time that the breakdown attributes to the kernels, collectives and host causes that the change shortens.

    Pieces of different causes are disjoint.
    """
    gpu, shorter, fewer = measured.timeline.gpu, *_touched(measured, change)
    kernels = iv.intersect(iv.intervals(gpu.start[shorter], gpu.end[shorter]), measured.attribution.counted)
    communication = measured.attribution.pieces(EXPOSED) if change.communication < 1 or change.overlap else iv.EMPTY
    causes = {cause for cause, factor in change.host.items() if factor < 1 and cause != EXPOSED}
    causes |= {"dispatch"} if change.launches < 1 else set()
    causes |= set(WAITING_CALLS) if change.no_wait is not None else set()
    before = measured.once(_idle_before_launches).ended_by(fewer)
    idle = {c: ns if c in causes else before.get(c, 0) for c, ns in measured.cause_ns.items()}
    return Booked(
        device_ns=iv.total(iv.union(kernels, communication)),
        idle_ns={cause: ns for cause, ns in idle.items() if ns},
    )


def _touched(measured: Measured, change: StepChange) -> tuple[Mask, Mask]:
    """The activities that take less time, and those whose launch goes."""
    none = np.zeros(len(measured.timeline.gpu), bool)
    factor = change.kernels
    shorter = none if factor is None else factor.where(factor.values < 1)
    gone = none if factor is None else factor.where(factor.values == 0)
    return shorter, gone if change.merge is None else gone | change.merge


class _IdleBeforeLaunches(msgspec.Struct, frozen=True):
    """The idle time of dispatch and launching by piece: its cause, and the activity that starts at its end.

    `following` is the activity that ends all idle time of these causes that the piece is in the midst of.
    """

    ns: Ints
    cause: Ids
    following: Ints
    causes: tuple[str, ...]

    def ended_by(self, activities: Mask) -> dict[str, float]:
        """Nanoseconds of each cause before one of the activities in the mask."""
        if not activities.any():
            return {}
        ns = np.where(np.append(activities, False)[self.following], self.ns, 0)
        return dict(zip(self.causes, summed(self.cause.astype(np.int64), ns, len(self.causes)).tolist(), strict=True))


def _idle_before_launches(measured: Measured) -> _IdleBeforeLaunches:
    found = measured.attribution
    rows = np.flatnonzero(marked(np.array([cause in BEFORE_A_LAUNCH for cause in found.causes], bool), found.cause))
    start, end = found.start[rows], found.end[rows]
    last = np.flatnonzero(np.append(start[1:] > end[:-1], True)) if len(rows) else rows
    following = np.searchsorted(measured.timeline.gpu.start, end[last], side="left")
    behind = np.repeat(following, np.diff(last, prepend=-1))
    return _IdleBeforeLaunches(end - start, found.cause[rows], behind, found.causes)
