"""One step as it can be drawn."""

import msgspec

from diagnose.diagnosis.terms import LaneKind, Nanoseconds, SliceClass


class SliceLabel(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a timeline slice and its class; "" if it counts in none."""

    name: str
    class_: SliceClass = msgspec.field(name="class")


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a step's timeline: a stream, the calls of a thread, or the causes of the gaps.

    The arrays are parallel, one entry for each slice, by start; slices do not overlap. `start_ns` counts from the
    step's start, `label` indexes the timeline's labels, and a slice with a `count` above 1 stands for that many short
    neighbours, under the label that most of their time has.
    """

    name: str
    kind: LaneKind
    start_ns: tuple[int, ...]
    length_ns: tuple[int, ...]
    label: tuple[int, ...]
    count: tuple[int, ...]


class SlowStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that took much longer than the median step, `factor` times as long.

    `recorded` is true for steps of the window, under the profiler, and false for steps that the capture only timed.
    `cause` is the cause of the ledger that grew most, by `cause_ns` over the median of the others; "" if unknown. For a
    step that was only timed it is known where its ranges show it. `what` says what of it, such as an evaluation, or
    what else is known of the step: that a pass over the loader began in it; "" if nothing is.
    """

    step: int
    rank: int
    recorded: bool
    ns: Nanoseconds
    factor: float
    cause: str = ""
    cause_ns: Nanoseconds = 0
    what: str = ""


class StepTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """The step of median length of a typical rank, on the clock of its device.

    `merged_below_ns` is the length below which neighbours share a slice, 0 if every activity has its own;
    `lanes_left_out` counts streams and threads that have no lane.
    """

    rank: int
    step: int
    length_ns: Nanoseconds
    labels: tuple[SliceLabel, ...]
    lanes: tuple[Lane, ...]
    merged_below_ns: Nanoseconds
    lanes_left_out: int = 0
