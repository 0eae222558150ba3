"""Steps as they can be drawn, of one rank and of several."""

import msgspec

from diagnose.diagnosis.terms import LaneKind, Nanoseconds, SliceClass, StepChoice


class SliceLabel(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a timeline slice and its class; "" if it counts in none."""

    name: str
    class_: SliceClass = msgspec.field(name="class")


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a step's timeline: a stream, the calls of a thread, the causes of the gaps, or all that a rank does.

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


class RankRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rank in a step of the job.

    Attributes:
        rank: its number in the job.
        start_ns: when it began the step, from the earliest beginning of a drawn rank on the common clock.
        length_ns: of its step.
        residual_ns: how well its clock is known, as `clocks` of the post-mortem has it; null if that is unknown.
        waiting_ns: the part of the step in which it waits for other ranks; null if that is unknown.
        by_cause: its step by cause, which adds up to `length_ns`.
        causes: the same as slices in order of time.
        lanes: its streams and threads.
        lanes_left_out: streams and threads that have no lane.
    """

    rank: int
    start_ns: Nanoseconds
    length_ns: Nanoseconds
    residual_ns: Nanoseconds | None
    waiting_ns: Nanoseconds | None
    by_cause: dict[str, Nanoseconds]
    causes: Lane
    lanes: tuple[Lane, ...]
    lanes_left_out: int = 0


class Meeting(msgspec.Struct, frozen=True, kw_only=True):
    """A collective that drawn ranks took part in.

    `start_ns` and `end_ns` are parallel to `ranks` and count from the beginning of the drawing. `last` is the rank that
    came last, which may be one that is not drawn.
    """

    kind: str
    group: str
    ranks: tuple[int, ...]
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    last: int


class JobStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of several ranks.

    Attributes:
        step: its number.
        chosen: why it is drawn.
        length_ns: from the earliest beginning of a drawn rank to the latest end of one.
        rows: the drawn ranks in order.
        meetings: their collectives in order of time; of many, those at which they arrive furthest apart, and sends only
            where other collectives leave room.
        meetings_left_out: collectives of the step that are not listed.
        merged_below_ns: the length below which neighbours share a slice, 0 if every piece has its own.
        waiting_shares: of every rank of the job, in the order of `ranks` of the diagnosis, the share of this step in
            which it waits for other ranks; null if that is unknown.
    """

    step: int
    chosen: StepChoice
    length_ns: Nanoseconds
    rows: tuple[RankRow, ...]
    meetings: tuple[Meeting, ...]
    meetings_left_out: int
    merged_below_ns: Nanoseconds
    waiting_shares: tuple[float | None, ...]


class JobTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of several ranks on one clock.

    Attributes:
        labels: of the slices of all ranks and steps.
        steps: the step of median length, the slowest if there are several, and the one before the longest of the slow
            steps of the window if it is neither.
        aligned: whether the ends of shared collectives give the ranks one clock; without it each rank's step begins
            at 0.
        late: the drawn ranks that the diagnosis names as late, worst first, else the one that waits least for others;
            empty if the waits are not known.
        late_is_named: whether they are those that the diagnosis names.
        typical: of the other drawn ranks, the one whose waiting is the median; null if there is none.
        ranks_left_out: ranks of the job that are not drawn.
    """

    labels: tuple[SliceLabel, ...]
    steps: tuple[JobStep, ...]
    aligned: bool
    late: tuple[int, ...]
    late_is_named: bool
    typical: int | None
    ranks_left_out: int
