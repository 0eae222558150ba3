"""The timeline of one step: a path for each class of each lane, and the slices as data for the script."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from diagnose.attribution.causes import WAITING
from diagnose.diagnosis import Diagnosis, Lane, SliceLabel, StepTimeline
from diagnose.facts import duration
from diagnose.report.views.breakdown import CLASS_NAMES
from diagnose.report.views.plain import plain
from diagnose.report.views.words import Named, causes_named, short_name

UNITS = 1_000_000  # of the step's length in every drawing; as fine as a renderer's single precision
WAITS_SHOWN = 12
CLASSES: dict[str, str] = {"plain": "", **{str(key): name for key, name in CLASS_NAMES.items()}}


@dataclass(frozen=True)
class Shape:
    """The slices of one class in one lane as one path."""

    key: str
    path: str


@dataclass(frozen=True)
class LaneView:
    """One lane as drawn; `summary` describes its content in words."""

    name: str
    kind: str
    shapes: list[Shape]
    summary: str


@dataclass(frozen=True)
class IdleCause:
    """One cause of idle time in this step: in all, and its longest slice, which begins at `start_ns`."""

    cause: str
    key: str
    share: float
    total: str
    slices: str
    longest: str
    at: str
    start_ns: int
    length_ns: int


@dataclass(frozen=True)
class TimelineView:
    """`data` is what the script draws details from."""

    rank: int
    step: int
    length: str
    ticks: list[str]
    lanes: list[LaneView]
    keys: list[str]
    waits: list[IdleCause]
    merged_below: str
    left_out: int
    data: dict[str, Any]


def timeline_view(diagnosis: Diagnosis) -> TimelineView | None:
    """The drawing; None when the diagnosis holds no timeline."""
    step = diagnosis.timeline
    if step is None or not step.lanes or not step.length_ns:
        return None
    keys = [label.class_ for label in step.labels]
    return TimelineView(
        rank=step.rank,
        step=step.step,
        length=duration(step.length_ns),
        ticks=[duration(step.length_ns * quarter / 4) for quarter in range(5)],
        lanes=[lane_view(lane, step.labels, step.length_ns) for lane in step.lanes],
        keys=[key for key in CLASS_NAMES if key in keys],
        waits=_waits(step, causes_named(diagnosis)),
        merged_below=duration(step.merged_below_ns) if step.merged_below_ns else "",
        left_out=step.lanes_left_out,
        data=_data(step, causes_named(diagnosis)),
    )


def lane_view(lane: Lane, labels: Sequence[SliceLabel], whole_ns: int, start_ns: int = 0) -> LaneView:
    """The lane as drawn from `start_ns` on in a drawing of `whole_ns`.

    Neighbours alternate between two tones of their class's colour. In a rank's row its waits for others are thin.
    """
    paths: dict[str, list[str]] = defaultdict(list)
    scale = UNITS / whole_ns
    for i, (start, length, label) in enumerate(zip(lane.start_ns, lane.length_ns, lane.label, strict=True)):
        key = (labels[label].class_ or "plain") + (" odd" if i % 2 else "")
        width = max(round(length * scale), 1)
        top, high = (".35", ".3") if lane.kind == "rank" and labels[label].name in WAITING else ("0", "1")
        paths[key].append(f"M{round((start_ns + start) * scale)} {top}h{width}v{high}h-{width}z")
    held = sum(lane.length_ns)
    summary = f"{sum(lane.count):,} in {duration(held)}"
    return LaneView(lane.name, lane.kind, [Shape(key, "".join(path)) for key, path in paths.items()], summary)


def labels_of(lanes: Iterable[Lane], labels: Sequence[SliceLabel], named: Named) -> list[tuple[str, str, str]]:
    """For the script: each label short and in full, and its class; those of lanes of causes in the report's words."""
    causes = {i for lane in lanes if lane.kind in ("cause", "rank") for i in lane.label}
    told: list[tuple[str, str, str]] = []
    for i, label in enumerate(labels):
        full = named(label.name) if i in causes else plain(label.name)
        told.append((full if i in causes else short_name(label.name), full, label.class_ or "plain"))
    return told


def _waits(step: StepTimeline, named: Named) -> list[IdleCause]:
    """The causes on the gaps, those with most time first."""
    slices = [
        (label, start, length, count)
        for lane in step.lanes
        if lane.kind == "cause"
        for label, start, length, count in zip(lane.label, lane.start_ns, lane.length_ns, lane.count, strict=True)
    ]
    total: dict[int, int] = defaultdict(int)
    for label, _, length, _ in slices:
        total[label] += length
    waits = []
    for label in sorted(total, key=lambda label: -total[label])[:WAITS_SHOWN]:
        of_cause = [s for s in slices if s[0] == label]
        _, start, length, _ = max(of_cause, key=lambda s: s[2])
        waits.append(
            IdleCause(
                cause=named(step.labels[label].name),
                key=step.labels[label].class_ or "plain",
                share=total[label] / step.length_ns,
                total=duration(total[label]),
                slices=f"{sum(count for *_, count in of_cause):,}",
                longest=duration(length),
                at=duration(start),
                start_ns=start,
                length_ns=length,
            )
        )
    return waits


def _data(step: StepTimeline, named: Named) -> dict[str, Any]:
    lanes = [
        {"name": plain(lane.name), "start": lane.start_ns, "length": lane.length_ns, "label": lane.label,
         "count": lane.count}
        for lane in step.lanes
    ]  # fmt: skip
    labels = labels_of(step.lanes, step.labels, named)
    return {"length": step.length_ns, "labels": labels, "lanes": lanes, "classes": CLASSES}
