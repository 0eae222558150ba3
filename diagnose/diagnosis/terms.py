"""Words and units that the parts of a diagnosis share."""

from collections.abc import Mapping
from typing import Annotated, Literal

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

Speedup = tuple[float, float | None]  # [low, high] of the step's speed; low is promised, null: the best is not known
Estimate = tuple[float, float, float]  # [low, likely, high]
NOT_SLOWER = 0.995  # from here on a speedup is printed as 1 or more
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Nanoseconds = Annotated[int, msgspec.Meta(ge=0)]


def may_slow(gain: Speedup | None) -> bool:
    """Whether the step is slower in the worst case."""
    return gain is not None and gain[0] < NOT_SLOWER


def bounding(verdict: VerdictClass) -> CauseClass | Literal["undecided"]:
    """The class of causes that a verdict names: "data" of "data-bound"."""
    return _BOUNDING.get(verdict, "undecided")
