"""Steps of several ranks: a row for each on one clock, lines that join their arrivals, and the tables of both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from diagnose.attribution.causes import WAITING, class_of
from diagnose.diagnosis import CauseClass, Diagnosis, JobStep, JobTimeline, Lane, Meeting, RankRow
from diagnose.facts import duration, spoken
from diagnose.report.html.timeline import CLASSES, UNITS, Shape, labels_of, lane_view
from diagnose.report.views.breakdown import CLASS_NAMES
from diagnose.report.views.heat import level
from diagnose.report.views.plain import plain
from diagnose.report.views.words import Named, causes_named, counted

RANKS_LISTED = 1024
STRIP_COLUMNS = 64


@dataclass(frozen=True)
class TimeCell:
    """A time in words, and in milliseconds; None if it is unknown."""

    text: str
    ms: float | None


@dataclass(frozen=True)
class RankRowView:
    """A rank's row: `text` says in words what it shows, `classes` are its times by class without `waits`."""

    rank: int
    late: bool
    text: str
    shapes: list[Shape]
    doubt: Shape | None
    start: TimeCell
    length: TimeCell
    waits: TimeCell
    classes: list[str]
    clock: str


@dataclass(frozen=True)
class MeetingView:
    """A collective in the table."""

    name: str
    ranks: str
    first: TimeCell
    last: TimeCell
    last_rank: int
    apart: str


@dataclass(frozen=True)
class StripView:
    """The waiting of every rank of the job as squares, by the step of the colour scale."""

    shapes: list[Shape]
    columns: int
    lines: int
    text: str
    listed: list[tuple[int, str]]
    more: int


@dataclass(frozen=True)
class JobStepView:
    """One step; `keys` are the classes that occur."""

    step: int
    chosen: str
    length: str
    ticks: list[str]
    rows: list[RankRowView]
    joined: str
    arrivals: str
    meetings: list[MeetingView]
    meetings_left_out: int
    keys: list[CauseClass]
    merged_below: str
    strip: StripView | None


@dataclass(frozen=True)
class JobTimelineView:
    """The section; the first of the steps is drawn, and the script draws the others from `data`.

    `waits` is whether a rank waits for another.
    """

    steps: list[JobStepView]
    ranks: int
    drawn: int
    clock: str
    waits: bool
    choices: list[tuple[str, str]]
    data: dict[str, Any]


def job_timeline_view(diagnosis: Diagnosis) -> JobTimelineView | None:
    """The drawing; None when the diagnosis holds none."""
    job = diagnosis.job_timeline
    if job is None or not all(step.length_ns for step in job.steps):
        return None
    numbers = [rank.rank for rank in diagnosis.ranks]
    return JobTimelineView(
        steps=[_step(job, step, numbers) for step in job.steps],
        ranks=len(numbers),
        drawn=len(job.steps[0].rows),
        clock=_clock(job),
        waits=any(row.waiting_ns for step in job.steps for row in step.rows),
        choices=_choices(job, len(numbers)),
        data=_data(job, causes_named(diagnosis)),
    )


def _clock(job: JobTimeline) -> str:
    """How well the rows stand to each other."""
    if not job.aligned:
        return "The ranks share no collective that could align their clocks, so each row begins at 0."
    residuals = {row.rank: row.residual_ns for row in job.steps[0].rows}
    known = [ns for ns in residuals.values() if ns is not None]
    to = f" to ±{duration(max(known))}{' (grey)' if max(known) else ''}" if len(known) > 1 else ""
    left = [str(rank) for rank, ns in residuals.items() if ns is None]
    of = f"rank{'s' if len(left) > 1 else ''} {', '.join(left)}"
    unknown = (
        f" How well is not known for {of}, which only sends or few collectives join to the others." if left else ""
    )
    return f"The ends of their collectives align the clocks{to}.{unknown}"


def _choices(job: JobTimeline, ranks: int) -> list[tuple[str, str]]:
    """The ranks to choose from: all that are drawn, the late ones beside a typical one, each alone."""
    rows = job.steps[0].rows
    every = [("all", "All" if len(rows) == ranks else f"All {len(rows)} drawn of {ranks:,}")]
    if job.late and job.typical is not None:
        late = f"rank{'s' if len(job.late) > 1 else ''} {', '.join(map(str, job.late))}"
        late = f"Late {late}" if job.late_is_named else f"Waits least: {late}"
        every.append(("late", f"{late} beside typical rank {job.typical}"))
    return [*every, *((str(row.rank), f"Rank {row.rank}") for row in rows)]


def _step(job: JobTimeline, step: JobStep, numbers: Sequence[int]) -> JobStepView:
    keys = [key for key in CLASS_NAMES if any(_ns_of(row, key) for row in step.rows)]
    place = {row.rank: i for i, row in enumerate(step.rows)}
    return JobStepView(
        step=step.step,
        chosen=step.chosen,
        length=duration(step.length_ns),
        ticks=[duration(step.length_ns * quarter / 4) for quarter in range(5)],
        rows=[_row(job, step, row, keys) for row in step.rows],
        joined="".join(_joined(meeting, place, step.length_ns) for meeting in step.meetings),
        arrivals="".join(_arrivals(meeting, place, step.length_ns) for meeting in step.meetings),
        meetings=[_meeting(meeting) for meeting in step.meetings],
        meetings_left_out=step.meetings_left_out,
        keys=keys,
        merged_below=duration(step.merged_below_ns) if step.merged_below_ns else "",
        strip=_strip(step, numbers) if job.ranks_left_out else None,
    )


def _ns_of(row: RankRow, class_: CauseClass) -> int:
    """Time in causes of a class, without the waiting for other ranks."""
    return sum(ns for cause, ns in row.by_cause.items() if class_of(cause) == class_ and cause not in WAITING)


def _row(job: JobTimeline, step: JobStep, row: RankRow, keys: Sequence[CauseClass]) -> RankRowView:
    late = row.rank in job.late and job.late_is_named
    drawn = lane_view(row.causes, job.labels, step.length_ns, row.start_ns)
    return RankRowView(
        rank=row.rank,
        late=late,
        text=_text(row, late),
        shapes=drawn.shapes,
        doubt=_doubt(row, step.length_ns),
        start=_time(row.start_ns),
        length=_time(row.length_ns),
        waits=_time(row.waiting_ns),
        classes=[duration(_ns_of(row, key)) for key in keys],
        clock="unknown" if row.residual_ns is None else f"±{duration(row.residual_ns)}",
    )


def _time(ns: int | None) -> TimeCell:
    return TimeCell("unknown", None) if ns is None else TimeCell(duration(ns), ns / 1e6)


def _text(row: RankRow, late: bool) -> str:
    """The row in words, the longest class first."""
    of_class = sorted(((_ns_of(row, key), name) for key, name in CLASS_NAMES.items()), reverse=True)
    parts = [f"{name} {duration(ns)}" for ns, name in of_class if ns]
    waits = {None: "its waits are unknown", 0: "waits for no other rank"}.get(row.waiting_ns)
    waits = waits or f"waits {duration(row.waiting_ns or 0)} for other ranks"
    step = f"begins at {duration(row.start_ns)}, step of {duration(row.length_ns)}"
    return f"rank {row.rank}{' (late)' if late else ''}: {step}: {', '.join((*parts, waits))}"


def _doubt(row: RankRow, whole_ns: int) -> Shape | None:
    """The band within which the rank's step begins, as well as its clock is known."""
    if not row.residual_ns:
        return None
    x, width = (round(ns * UNITS / whole_ns) for ns in (row.start_ns - row.residual_ns, 2 * row.residual_ns))
    return Shape("doubt", f"M{x} 0h{max(width, 1)}v1h-{max(width, 1)}z")


def _points(meeting: Meeting, place: dict[int, int], whole_ns: int) -> list[tuple[int, float]]:
    """Where the ranks arrive: from the left in units of the drawing, from the top in rows."""
    each = zip(meeting.ranks, meeting.start_ns, strict=True)
    return [(round(start * UNITS / whole_ns), place[rank] + 0.5) for rank, start in each]


def _joined(meeting: Meeting, place: dict[int, int], whole_ns: int) -> str:
    return "M" + "L".join(f"{x} {y}" for x, y in _points(meeting, place, whole_ns))


def _arrivals(meeting: Meeting, place: dict[int, int], whole_ns: int) -> str:
    return "".join(f"M{x} {y - 0.35:g}v.7" for x, y in _points(meeting, place, whole_ns))


def _meeting(meeting: Meeting) -> MeetingView:
    first, last = min(meeting.start_ns), max(meeting.start_ns)
    group = plain(meeting.group)
    some = ", ".join(str(rank) for rank in meeting.ranks[:3])
    return MeetingView(
        name=f"{meeting.kind}, group {group}" if group else meeting.kind,
        ranks=some if len(meeting.ranks) <= 3 else f"{some} to {meeting.ranks[-1]}",
        first=_time(first),
        last=_time(last),
        last_rank=meeting.last,
        apart=duration(last - first),
    )


def _strip(step: JobStep, numbers: Sequence[int]) -> StripView | None:
    """Every rank's waiting, in the order of the ranks; None if it is unknown."""
    known = [(share, rank) for share, rank in zip(step.waiting_shares, numbers, strict=True) if share is not None]
    if not known:
        return None
    by_level: dict[int, list[str]] = {}
    for i, share in enumerate(step.waiting_shares):
        if share is not None:
            at = f"M{i % STRIP_COLUMNS} {i // STRIP_COLUMNS}h.9v.9h-.9z"
            by_level.setdefault(level(share), []).append(at)
    ordered = sorted(known)
    (least, first), (middle, _), (most, last) = ordered[0], ordered[(len(ordered) - 1) // 2], ordered[-1]
    told = (
        f"least rank {first} ({spoken(least, 'share')})",
        f"the median {spoken(middle, 'share')}",
        f"most rank {last} ({spoken(most, 'share')})",
    )
    return StripView(
        shapes=[Shape(f"h{number}", "".join(squares)) for number, squares in sorted(by_level.items())],
        columns=min(len(numbers), STRIP_COLUMNS),
        lines=-(-len(numbers) // STRIP_COLUMNS),
        text=f"Waiting of all ranks, of step {step.step}: {', '.join(told)}",
        listed=[(rank, spoken(share, "share")) for share, rank in sorted(known, key=lambda k: k[1])[:RANKS_LISTED]],
        more=max(len(known) - RANKS_LISTED, 0),
    )


# What the script draws the other choices from.


def _data(job: JobTimeline, named: Named) -> dict[str, Any]:
    lanes = [row.causes for step in job.steps for row in step.rows]
    return {
        "labels": labels_of(lanes, job.labels, named),
        "waits": [i for i, label in enumerate(job.labels) if label.name in WAITING],
        "classes": CLASSES,
        "late": [*job.late, job.typical],
        "steps": [_step_data(job, step) for step in job.steps],
    }


def _step_data(job: JobTimeline, step: JobStep) -> dict[str, Any]:
    return {
        "length": step.length_ns,
        "rows": [_row_data(job, row) for row in step.rows],
        "meetings": [{"ranks": meeting.ranks, "start": meeting.start_ns} for meeting in step.meetings],
    }


def _row_data(job: JobTimeline, row: RankRow) -> dict[str, Any]:
    late = row.rank in job.late and job.late_is_named
    left = f"; {counted(row.lanes_left_out, 'stream or thread')} not drawn" if row.lanes_left_out else ""
    return {
        "rank": row.rank,
        "late": late,
        "start": row.start_ns,
        "length": row.length_ns,
        "residual": row.residual_ns or 0,
        "text": _text(row, late),
        "left": left,
        "lanes": [_lane_data(lane) for lane in (row.causes, *row.lanes)],
    }


def _lane_data(lane: Lane) -> tuple[str, str, list[int], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A lane in few characters: for each slice the gap before it, its length, label and count, () if all are 1."""
    ends = (0, *(start + length for start, length in zip(lane.start_ns, lane.length_ns, strict=True)))
    gaps = [start - end for start, end in zip(lane.start_ns, ends, strict=False)]
    count = () if set(lane.count) == {1} else lane.count
    return plain(lane.name), lane.kind, gaps, lane.length_ns, lane.label, count
