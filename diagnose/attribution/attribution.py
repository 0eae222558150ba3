"""Attribute every nanosecond of a step to exactly one cause; the parts add up to the step.

On a device step, in this order: compute kernels by family | communication alone (exposed) | copies alone | idle. Idle
gaps are cut at the launch of the activity that ends them and each piece gets the cause that the launching threads show.
Without a GPU the host step is divided by the activity of the process.
"""

from collections.abc import Iterator
from functools import cached_property

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ids, Ints, Labels, Mask, marked, shortened
from diagnose.attribution.around_operators import around_operators
from diagnose.attribution.causes import (
    COPIES,
    EXPOSED,
    GRAPH_CAPTURE,
    MATRIX,
    MATRIX_OPERATORS,
    NOTHING_RECORDED,
    OPTIMIZER_OPERATORS,
    UNKNOWN_KIND,
    class_of,
    low_intensity,
)
from diagnose.attribution.idle import idle_causes
from diagnose.attribution.operators import operator_time
from diagnose.diagnosis.terms import CauseClass
from diagnose.formulas import share
from diagnose.intervals import Intervals
from diagnose.timeline import Timeline
from diagnose.timeline.kernel_names import COMMUNICATION, Kind
from diagnose.trace.vocabulary import (
    ANNOTATIONS,
    CLIP,
    COMMUNICATION_RANGES,
    DATA_WAIT,
    LOGGING,
    PYTHON,
)

MEMORY_BOUND = "memory"  # in a `Bound`


class Attribution(msgspec.Struct, frozen=True, dict=True):
    """Disjoint pieces sorted by start that cover the counted steps; `cause` indexes `causes`."""

    windows: Ints
    start: Ints
    end: Ints
    cause: Ids
    causes: tuple[str, ...]

    @property
    def total_ns(self) -> int:
        """Length of all counted steps."""
        return int((self.windows[:, 1] - self.windows[:, 0]).sum())

    @property
    def counted(self) -> Intervals:
        """The instants in counted steps."""
        return iv.intervals(self.windows[:, 0], self.windows[:, 1])

    def share(self, ns: float) -> float:
        """The length as a share of the counted steps."""
        return share(ns, self.total_ns) or 0.0

    def ns(self) -> dict[str, int]:
        """Nanoseconds of each cause over all counted steps; they add up to `total_ns`."""
        sums = np.zeros(len(self.causes), np.int64)
        np.add.at(sums, self.cause, self.end - self.start)
        return {c: int(n) for c, n in zip(self.causes, sums, strict=True)}

    @property
    def classes(self) -> tuple[CauseClass, ...]:
        """The class of each of `causes`."""
        return tuple(class_of(cause) for cause in self.causes)

    def pieces(self, *causes: str) -> Intervals:
        """The instants attributed to any of `causes`."""
        known = frozenset(causes) & frozenset(self.causes)
        if known not in self._pieces:
            own = marked(np.array([cause in known for cause in self.causes], bool), self._short_cause)
            self._pieces[known] = iv.intervals(self.start[own], self.end[own])
        return self._pieces[known]

    @cached_property
    def _short_cause(self) -> Array:
        return shortened(self.cause, len(self.causes))

    @cached_property
    def _pieces(self) -> dict[frozenset[str], Intervals]:
        """Cache of `pieces`: metrics and what-ifs ask for the same causes again and again."""
        return {}


def attribute(timeline: Timeline, bound: Labels | None = None) -> Attribution:
    """Divides the counted steps of one rank among causes.

    Args:
        timeline: the rank.
        bound: for each GPU activity its bound by the roofline, "compute", "memory" or "" if its kind decides.
    """
    windows = timeline.windows
    inside = iv.intervals(windows[:, 0], windows[:, 1])
    parts = _device_parts(timeline, inside, bound) if timeline.has_gpu else _host_parts(timeline, inside)
    return _joined(windows, parts)


Parts = list[tuple[str, Intervals]]


def _device_parts(timeline: Timeline, inside: Intervals, bound: Labels | None) -> Parts:
    gpu = timeline.gpu
    compute = ~gpu.is_communication & ~gpu.is_copy
    parts = _kernel_parts(timeline, compute, bound)
    busy = iv.intervals(gpu.start[compute], gpu.end[compute])
    communication = gpu.is_communication
    parts.append((EXPOSED, _alone(gpu.start[communication], gpu.end[communication], busy)))
    busy = iv.union(busy, parts[-1][1])
    for cause in COPIES:
        rows = np.array([cause_of(kind) == cause for kind in gpu.kinds], bool)[gpu.kind]
        alone = _alone(gpu.start[rows], gpu.end[rows], busy)
        busy = iv.union(busy, alone)
        parts.append((cause, alone))
    parts = [(cause, iv.intersect(pieces, inside)) for cause, pieces in parts]
    return [*parts, *idle_causes(timeline, iv.subtract(inside, busy), busy)]


def _kernel_parts(timeline: Timeline, rows: Mask, bound: Labels | None) -> Parts:
    """Time of each kernel that no earlier kernel covers, by the kernel's purpose and its bound."""
    gpu = timeline.gpu
    start, end = iv.exclusive(gpu.start[rows], gpu.end[rows])
    number, causes = _kernel_causes(timeline, bound)
    number = shortened(number[rows], len(causes))
    parts: Parts = []
    for at, cause in enumerate(causes):
        of_cause = number == at
        if of_cause.any():
            parts.append((cause, iv.intervals(start[of_cause], end[of_cause])))
    return parts


def _kernel_causes(timeline: Timeline, bound: Labels | None) -> tuple[Ids, list[str]]:
    """Number of each activity's cause in the list, and the list.

    The cause is the kernel's family; kernels that the optimizer or the clipping of gradients launches are theirs,
    matrix products left out. `bound` separates matrix kernels that are memory-bound from those that are compute-bound.
    """
    gpu = timeline.gpu
    by_kind = [cause_of(kind) for kind in gpu.kinds]
    causes = list(dict.fromkeys([*by_kind, "optimizer", "clip"]))
    number = np.array([causes.index(cause) for cause in by_kind], np.int32)[gpu.kind]
    matrix = gpu.is_compute_bound
    number[timeline.launched_under(CLIP) & ~matrix] = causes.index("clip")
    number[timeline.launched_by_optimizer & ~matrix] = causes.index("optimizer")
    if bound is not None:
        for at, cause in enumerate(list(causes)):
            if cause in MATRIX:
                causes.append(low_intensity(cause))
                number[(number == at) & bound.are(MEMORY_BOUND)] = len(causes) - 1
    return number, causes


def cause_of(kind: Kind) -> str:
    """The cause that an activity of this kind counts in while it runs alone, regardless of what launched it."""
    if kind.family == COMMUNICATION:
        return EXPOSED
    if kind.family == "memcpy":
        return name if (name := f"copy-{kind.sub}") in COPIES else "copy-unknown"
    if kind.family == "inductor" and kind.sub == "template":
        return "inductor-template"
    return UNKNOWN_KIND if kind.family == "other" else kind.family


def _alone(starts: Ints, ends: Ints, others: Intervals) -> Intervals:
    return iv.subtract(iv.intervals(starts, ends), others)


def _host_parts(timeline: Timeline, inside: Intervals) -> Parts:
    """Parts of a step without a GPU: data, operators by kind, exposed communication, and the rest of the host."""
    left, parts = inside, []
    if timeline.is_empty:
        return [(NOTHING_RECORDED, inside)]
    for cause, pieces in _host_layers(timeline):
        painted = iv.intersect(pieces, left)
        left = iv.subtract(left, painted)
        parts.append((cause, painted))
    return [*parts, *around_operators(timeline, left)]


def _host_layers(timeline: Timeline) -> Iterator[tuple[str, Intervals]]:
    """Activities of the process, in the order in which they paint a step; an instant of several counts as the first."""
    before = (
        ("data-wait", timeline.matching(DATA_WAIT, *ANNOTATIONS)),
        ("gc", timeline.matching("Python GC", *ANNOTATIONS, *PYTHON)),
        ("logging", timeline.matching(LOGGING, *ANNOTATIONS)),
    )
    yield GRAPH_CAPTURE, timeline.captures.spans
    for cause, mask in before:
        yield cause, _spans(timeline, mask)
    by_cause = operator_time(timeline)
    yield MATRIX_OPERATORS, by_cause.pop(MATRIX_OPERATORS, iv.EMPTY)
    yield OPTIMIZER_OPERATORS, iv.intersect(iv.union(*by_cause.values()), timeline.optimizer_steps)
    yield from by_cause.items()
    yield EXPOSED, _spans(timeline, timeline.matching(COMMUNICATION_RANGES, *ANNOTATIONS))
    yield "optimizer-host", timeline.optimizer_steps


def _spans(timeline: Timeline, mask: Mask) -> Intervals:
    return iv.intervals(timeline.trace.ts[mask], timeline.trace.ends(mask))


def _joined(windows: Ints, parts: Parts) -> Attribution:
    causes = tuple(dict.fromkeys(cause for cause, _ in parts))
    number = {cause: i for i, cause in enumerate(causes)}
    pieces = np.concatenate([iv.EMPTY, *(p for _, p in parts)])
    cause = np.concatenate([np.zeros(0, np.int32), *(np.full(len(p), number[c], np.int32) for c, p in parts)])
    order = np.argsort(pieces[:, 0], kind="stable")
    return Attribution(
        windows,
        pieces[order, 0],
        pieces[order, 1],
        cause[order],
        causes,
    )
