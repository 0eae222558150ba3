"""Rows of slices as the lanes of a drawing: cut to a step, and neighbours merged until they fit a budget."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from diagnose.arrays import Ints, Mask, numbered
from diagnose.diagnosis import Lane, LaneKind, SliceClass, SliceLabel

FINEST = 20_000  # slices shorter than this part of the step are no wider than a pixel even when zoomed ten times

Key = tuple[str, SliceClass]


class Row(msgspec.Struct, frozen=True):
    """Slices of one lane, disjoint and by start; `label` indexes `keys`."""

    name: str
    kind: LaneKind
    start: Ints
    end: Ints
    label: Ints
    keys: Sequence[Key]


def clipped(row: Row, begin: int, end: int) -> Row:
    """The part of a row within a step, in nanoseconds from the step's beginning."""
    start, stop = np.clip(row.start, begin, end) - begin, np.clip(row.end, begin, end) - begin
    keep = stop > start
    return Row(row.name, row.kind, start[keep], stop[keep], row.label[keep], row.keys)


def bounded(
    rows: Sequence[Row], length: int, budget: Mapping[LaneKind, int], labels: dict[Key, int]
) -> tuple[tuple[Lane, ...], int]:
    """The rows of a step as lanes, and the length below which their neighbours share a slice.

    Args:
        rows: from the step's beginning on, as `clipped` makes them.
        length: of the step.
        budget: the most slices that all rows of a kind have together.
        labels: numbers of the labels so far, to which those of the rows are added.
    """
    below = {kind: _resolution([r for r in rows if r.kind == kind], length, most) for kind, most in budget.items()}
    lanes = tuple(_lane(row, below[row.kind], labels) for row in rows)
    return lanes, max((below[row.kind] for row in rows), default=0)


def named(labels: Mapping[Key, int]) -> tuple[SliceLabel, ...]:
    """The labels in the order of their numbers."""
    return tuple(SliceLabel(name=name, class_=class_) for name, class_ in labels)


def _lane(row: Row, below: int, labels: dict[Key, int]) -> Lane:
    start, end, label, count = _merged(row, below)
    return Lane(
        name=row.name,
        kind=row.kind,
        start_ns=tuple(start.tolist()),
        length_ns=tuple((end - start).tolist()),
        label=tuple(labels.setdefault(row.keys[i], len(labels)) for i in label.tolist()),
        count=tuple(count.tolist()),
    )


def _resolution(rows: Sequence[Row], length: int, most: int) -> int:
    """The length to merge below with which the rows have at most `most` slices together; 0 merges none.

    It is the smallest that doubling finds, or three quarters of it if that is enough, too.
    """

    def fits(below: int) -> bool:
        return sum(int(_first_of_merged(row, below).sum()) for row in rows) <= most

    below = 0
    while not fits(below):
        below = max(2 * below, length // FINEST, 1)
    return below - below // 4 if below and fits(below - below // 4) else below


def _merged(row: Row, below: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Start, end, label and count of the slices, neighbours that are shorter and nearer than `below` being one."""
    if not below or not len(row.start):
        return row.start, row.end, row.label, np.ones(len(row.start), np.int64)
    first = _first_of_merged(row, below)
    group = np.cumsum(first) - 1
    last = np.concatenate((first[1:], [True]))
    return row.start[first], row.end[last], _most(group, row), np.bincount(group)


def _first_of_merged(row: Row, below: int) -> Mask:
    """Mask of the slices that are not merged with the one before them.

    Slices that begin in different cells of a grid of `below` stay apart, so that a long run of short slices keeps its
    shape.
    """
    if not below or not len(row.start):
        return np.ones(len(row.start), bool)
    small = row.end - row.start < below
    near = (row.start[1:] - row.end[:-1] < below) & (row.start[1:] // below == row.start[:-1] // below)
    return np.concatenate(([True], ~(small[1:] & small[:-1] & near)))


def _most(group: Ints, row: Row) -> Ints:
    """For each group of slices, the label with the most time."""
    pairs, inverse = numbered(group * len(row.keys) + row.label)
    time = np.bincount(inverse, weights=row.end - row.start)
    order = np.lexsort((time, pairs // len(row.keys)))
    last = np.concatenate((np.diff(pairs[order] // len(row.keys)) > 0, [True]))
    return pairs[order[last]] % len(row.keys)
