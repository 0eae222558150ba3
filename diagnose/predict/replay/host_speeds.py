"""The host's speed without the profiler, by cause: the profiler adds time for each event that it records.

So code that calls many small operators gets much longer, long computations in one operator hardly longer, and work that
records nothing, such as garbage collection, not longer at all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.attribution.causes import UNRECORDED
from diagnose.intervals import Intervals
from diagnose.trace import Trace
from diagnose.trace.vocabulary import ANNOTATIONS, PYTHON, RUNTIME

SLOWEST_PROFILER = 0.3  # of the profiled time: a control step that implies less is not trusted
MOST_EVENT_NS = 10_000.0  # an event takes 2 to 6 us; a difference that asks for more is the machine's
LIKELY_EVENT_NS = 3_500.0  # the median of 18 host-bound jobs on an H200 (1.5 to 6 us; docs/gpu.md)
_STEPS = 8  # bisections: to a 256th of the range


@dataclass(frozen=True)
class HostSpeeds:
    """Factors on host time from the profiled to the unprofiled speed, by cause of the breakdown.

    Causes that `by_cause` does not name have the factor `others`, but for those that no profiler lengthens.
    """

    others: float = 1.0
    by_cause: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if min(self.others, *self.by_cause.values(), 1.0) < 0:
            raise ValueError("a factor below 0 would turn time back")

    @property
    def is_as_profiled(self) -> bool:
        """Whether no factor changes anything."""
        return {self.others, *self.by_cause.values()} == {1.0}

    def of(self, cause: str) -> float:
        """The factor of a cause."""
        return self.by_cause.get(cause, 1.0 if cause in UNRECORDED else self.others)


AS_PROFILED = HostSpeeds()


@dataclass(frozen=True)
class RecordedCause:
    """The host's work for one cause in the replayed steps: nanoseconds per step, and events that begin in it."""

    ns: float
    events: float

    def speed(self, event_ns: float) -> float:
        """Factor on its time without the profiler, if each event costs that much."""
        left = 1 - event_ns * self.events / self.ns if self.ns > 0 else 1.0
        return max(left, SLOWEST_PROFILER)


def recorded_by(trace: Trace, pieces: Mapping[str, Intervals], steps: int) -> dict[str, RecordedCause]:
    """Time and events of each cause per step, from the disjoint instants of each.

    An event counts for the cause just before it begins: its shapes and its name are collected before its time starts.
    """
    bounds = [bound for instants in pieces.values() if len(instants) for bound in (instants[0, 0], instants[-1, 1])]
    first, last = (int(min(bounds)), int(max(bounds))) if bounds else (0, 0)
    near = trace.rows_of(*ANNOTATIONS, *RUNTIME, *PYTHON) & (trace.ts > first) & (trace.ts <= last)
    begins = np.sort(trace.ts[near], kind="stable") - 1
    return {
        cause: RecordedCause(iv.total(instants) / steps, float(_points_in(begins, instants)) / steps)
        for cause, instants in pieces.items()
        if len(instants)
    }


def as_the_rest(recorded: Mapping[str, RecordedCause], cause: str) -> RecordedCause:
    """The cause with as many events in its time as the others have: ranks wait for what the profiler does to others."""
    others = [found for name, found in recorded.items() if name != cause and name not in UNRECORDED]
    events, ns = sum(found.events for found in others), sum(found.ns for found in others)
    own_ns = recorded[cause].ns
    return RecordedCause(own_ns, own_ns * events / ns if ns else 0.0)


def _points_in(points: Ints, instants: Intervals) -> int:
    """Number of the sorted points in the disjoint instants."""
    return int((np.searchsorted(points, instants[:, 1]) - np.searchsorted(points, instants[:, 0])).sum())


def speeds_that_fit(
    recorded: Mapping[str, RecordedCause], told: Mapping[str, float], fits: Callable[[HostSpeeds], bool]
) -> HostSpeeds:
    """The slowest speeds at which the step `fits` the steps without the profiler; causes in `told` keep theirs.

    Each event costs the same. Time beyond `MOST_EVENT_NS` per event slows everything evenly.
    """

    def by_events(event_ns: float, others: float = 1.0) -> HostSpeeds:
        each = {cause: found.speed(event_ns) * others for cause, found in recorded.items() if cause not in UNRECORDED}
        return HostSpeeds(others, {**each, **told})

    if fits(by_events(0.0)):
        return by_events(0.0)
    if fits(by_events(MOST_EVENT_NS)):
        return by_events(_least(lambda event_ns: fits(by_events(event_ns)), 0.0, MOST_EVENT_NS))
    even = _least(lambda slower: fits(by_events(MOST_EVENT_NS, 1 - slower)), 0.0, 1 - SLOWEST_PROFILER)
    return by_events(MOST_EVENT_NS, 1 - even)


def likely_speeds(
    recorded: Mapping[str, RecordedCause], slowest: HostSpeeds, fits: Callable[[HostSpeeds], bool]
) -> HostSpeeds:
    """The speeds at `LIKELY_EVENT_NS` for each event, or at as much of it as still `fits`; none is above `slowest`."""

    def by_events(event_ns: float) -> HostSpeeds:
        each = {c: min(found.speed(event_ns), slowest.of(c)) for c, found in recorded.items() if c not in UNRECORDED}
        return HostSpeeds(slowest.others, {**slowest.by_cause, **each})

    if fits(by_events(LIKELY_EVENT_NS)):
        return by_events(LIKELY_EVENT_NS)
    too_fast = _least(lambda event_ns: not fits(by_events(event_ns)), 0.0, LIKELY_EVENT_NS)
    return by_events(max(too_fast - LIKELY_EVENT_NS / 2**_STEPS, 0.0))


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The least value between the two that is enough; `high` if none is."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
