"""Words and units that the parts of a diagnosis share."""

from collections.abc import Mapping
from typing import Annotated, Literal, Protocol

import msgspec

VerdictClass = Literal["data-bound", "host-bound", "memory-bound", "compute-bound", "communication-bound", "undecided"]
CauseClass = Literal["data", "host", "memory", "compute", "communication", "unexplained"]
FindingClass = Literal[
    "data", "host", "memory", "compute", "communication", "capacity", "imbalance", "validity", "unexplained"
]
_BOUNDING: Mapping[VerdictClass, CauseClass] = {
    "data-bound": "data",
    "host-bound": "host",
    "communication-bound": "communication",
    "compute-bound": "compute",
    "memory-bound": "memory",
}
VERDICTS: Mapping[str, VerdictClass] = {class_: verdict for verdict, class_ in _BOUNDING.items()}
Severity = Literal["critical", "warning", "info"]
RestsOn = Literal["time", "count"]
Over = Literal["step", "run"]
Confidence = Literal["high", "medium", "low"]
DoubtKind = Literal[
    "not-recorded",
    "ranks-apart",
    "crowded-host",
    "unlike-controls",
    "growing-steps",
    "uneven-steps",
    "profiler",
    "start-in-window",
    "few-steps",
    "one-rank",
    "unnamed",
    "close-classes",
    "lost-launches",
    "classed-by-kind",
]


Bound = Literal["compute", "memory", "latency", "under-filled", "unknown"]
LaneKind = Literal["stream", "thread", "cause", "rank"]
StepChoice = Literal["median", "slowest", "before a stall"]
SliceClass = Literal[CauseClass, ""]

Speedup = tuple[float, float | None]  # [low, high] of the step's speed; null: the best is not known
Estimate = tuple[float, float, float]  # [low, likely, high]
NOT_SLOWER = 0.995  # from here on a speedup is printed as 1 or more
_FASTER = 1.005  # above that, as more than 1
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Nanoseconds = Annotated[int, msgspec.Meta(ge=0)]


def may_slow(gain: Speedup | None) -> bool:
    """Whether the step is slower in the worst case."""
    return gain is not None and gain[0] < NOT_SLOWER


def gains_surely(gain: Speedup) -> bool:
    """Whether the step is faster in the worst case."""
    return gain[0] >= _FASTER


class Promising(Protocol):
    """A change with its worst and best case, and where eight in ten gains lie."""

    @property
    def predicted_speedup(self) -> Speedup | None:
        """The cases."""

    @property
    def likely_speedup(self) -> float | None:
        """The likely value between them."""

    @property
    def usual_speedup(self) -> Speedup | None:
        """Where most gains lie; None if that is not known."""


def expected_range(change: Promising) -> Speedup | None:
    """The range that is shown, and that a measurement is held against: the usual one, else from worst to best case."""
    return change.usual_speedup or change.predicted_speedup


def bounding(verdict: VerdictClass) -> CauseClass | Literal["undecided"]:
    """The class of causes that a verdict names: "data" of "data-bound"."""
    return _BOUNDING.get(verdict, "undecided")
