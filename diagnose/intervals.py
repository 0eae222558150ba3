"""Sets of half-open intervals [start, end) as sorted, disjoint int64 arrays of shape (n, 2), in nanoseconds.

Sorted and disjoint sets make both columns ascend, by which instants, and the intervals that overlap another one, are
looked up in logarithmic time: only what is given in any order has to be sorted.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from diagnose.arrays import Floats, Ints, Mask

Intervals = Ints

EMPTY: Intervals = np.empty((0, 2), np.int64)
_FEW = 4  # intervals: each is held against all times, which is quicker than to look each time up
_BLOCK = 1 << 16  # events whose columns stay in the processor's cache


def intervals(starts: Ints, ends: Ints) -> Intervals:
    """Return the union of possibly overlapping intervals. Empty and reversed ones are dropped.

    In order of start, an interval begins a new piece exactly if it starts after the running maximum of all ends so far.
    """
    keep = ends > starts
    if not keep.all():
        starts, ends = starts[keep], ends[keep]
    if not len(starts):
        return EMPTY
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        del order  # with millions of events this is the largest array in memory
    if (ends[1:] < ends[:-1]).any():
        ends = np.maximum.accumulate(ends)
    behind = starts[1:] > ends[:-1]
    if not behind.all():
        starts, ends = starts[np.append(True, behind)], ends[np.append(behind, True)]
    return np.stack((starts, ends), axis=1)


def of_events(start: Ints, lasts: Ints, marked: Mask) -> Intervals:
    """The union of the marked events, each from its `start` on for as long as it `lasts`.

    Block by block: a union of unions is the same set, and no column of millions of events is made on the way.
    """
    if np.count_nonzero(marked) <= _BLOCK:
        return _of_block(start, lasts, marked)
    return union(*(_of_block(start[b], lasts[b], marked[b]) for b in blocks(len(start))))


def overlapping(start: Ints, lasts: Ints, begin: int, end: int) -> Mask:
    """Mask of the events of which a part is in [begin, end); block by block."""
    found = np.empty(len(start), bool)
    for b in blocks(len(start)):
        found[b] = (start[b] < end) & (start[b] + lasts[b] > begin)
    return found


def _of_block(start: Ints, lasts: Ints, marked: Mask) -> Intervals:
    rows = np.flatnonzero(marked)
    begin = start[rows]
    return intervals(begin, begin + lasts[rows]) if len(rows) else EMPTY


def blocks(count: int, least: int = 1) -> Iterator[slice]:
    """The positions up to `count` in slices of at least so many, but for the last."""
    size = max(least, _BLOCK)
    return (slice(begin, begin + size) for begin in range(0, count, size))


def one(start: int, end: int) -> Intervals:
    """The set that holds [start, end) alone, empty when end <= start."""
    return np.array([[start, end]], np.int64) if end > start else EMPTY


def union(*sets: Intervals) -> Intervals:
    """Every instant that is in any of the sets."""
    joined = np.concatenate((EMPTY, *sets))
    return intervals(joined[:, 0], joined[:, 1])


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Every instant that is in both sets.

    In the larger set, the intervals that overlap one of the smaller are contiguous.
    """
    if not len(a) or not len(b):
        return EMPTY
    many, few = (a, b) if len(a) >= len(b) else (b, a)
    first = np.searchsorted(many[:, 1], few[:, 0], side="right")
    behind = np.searchsorted(many[:, 0], few[:, 1], side="left")
    if len(few) <= _FEW:
        cuts = zip(first.tolist(), behind.tolist(), few.tolist(), strict=True)
        return np.concatenate([np.clip(many[begin:until], *cut) for begin, until, cut in cuts])
    overlapping = np.maximum(behind - first, 0)
    of_few = np.repeat(np.arange(len(few)), overlapping)
    of_many = np.arange(len(of_few)) + np.repeat(first - np.cumsum(overlapping) + overlapping, overlapping)
    starts = np.maximum(many[of_many, 0], few[of_few, 0])
    return np.stack((starts, np.minimum(many[of_many, 1], few[of_few, 1])), axis=1)


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Every instant of `a` that is not in `b`."""
    if not len(a) or not len(b):
        return a
    ever = np.iinfo(np.int64)
    return intersect(a, np.stack((np.append(ever.min, b[:, 1]), np.append(b[:, 0], ever.max)), axis=1))


def total(a: Intervals) -> int:
    """Length of the set in nanoseconds."""
    return int((a[:, 1] - a[:, 0]).sum())


def clip(a: Intervals, start: int, end: int) -> Intervals:
    """The part of the set inside [start, end)."""
    inside = a[(a[:, 1] > start) & (a[:, 0] < end)]
    return np.clip(inside, start, end)


def longer_than(a: Intervals, ns: int) -> Intervals:
    """The intervals of the set that last more than `ns`."""
    return a[(a[:, 1] - a[:, 0]) > ns]


def holds(a: Intervals, times: Ints) -> Mask:
    """Whether each time is in the set."""
    if len(a) <= _FEW:
        inside = np.zeros(len(times), bool)
        for start, end in a.tolist():
            inside |= (times >= start) & (times < end)
        return inside
    begun = np.searchsorted(a[:, 0], times, side="right")
    return (begun > 0) & (times < a[np.maximum(begun - 1, 0), 1])


def which_holds(a: Intervals, times: Ints) -> Ints:
    """Return for each time the index of the interval that contains it, -1 for none; of several, the last to begin.

    Ascending times are contiguous in each interval, so the intervals are looked up among the times.
    """
    if (times[1:] < times[:-1]).any() or len(times) <= len(a):
        begun = np.searchsorted(a[:, 0], times, side="right") - 1
        return np.where((begun >= 0) & (times < np.append(a[:, 1], 0)[begun]), begun, -1)
    turns = np.searchsorted(times, a)
    turns[:, 1] = np.clip(turns[:, 1], turns[:, 0], np.append(turns[1:, 0], len(times)))
    numbers = np.full(2 * len(a) + 1, -1)
    numbers[1::2] = np.arange(len(a))
    return np.repeat(numbers, np.diff(turns.ravel(), prepend=0, append=len(times)))


def covered_before(a: Intervals, times: Ints) -> Ints:
    """Nanoseconds of the set before each time."""
    return _Covered(a).before(times)


def coverage(a: Intervals, starts: Ints, ends: Ints) -> Ints:
    """Nanoseconds of the set inside each window [starts[i], ends[i])."""
    if len(a) <= _FEW:
        inside = np.zeros(len(starts), np.int64)
        for start, end in a.tolist():
            inside += np.maximum(np.clip(ends, start, end) - np.clip(starts, start, end), 0)
        return inside
    covered, inside = _Covered(a), np.empty(len(starts), np.int64)
    for b in blocks(len(starts)):
        inside[b] = np.maximum(covered.before(ends[b]) - covered.before(starts[b]), 0)
    return inside


def coverages(a: Intervals, starts: Sequence[Ints], ends: Sequence[Ints]) -> list[Ints]:
    """The same of several sets of windows, at least one: the set is gone through once for all of them."""
    inside = coverage(a, np.concatenate(starts), np.concatenate(ends))
    return np.split(inside, np.cumsum([len(each) for each in starts])[:-1])


class _Covered:
    """The length of a set of intervals before a time.

    That is the length of all intervals begun by then, less what the last of them has still to run: the earlier ones
    have ended, since they are disjoint. The difference of two times is the coverage of any window, without a loop.
    """

    def __init__(self, a: Intervals) -> None:
        self._start, self._end = np.ascontiguousarray(a[:, 0]), np.append(np.iinfo(np.int64).min, a[:, 1])
        self._length = np.append(0, np.cumsum(a[:, 1] - a[:, 0]))

    def before(self, times: Ints) -> Ints:
        """Nanoseconds before each of the times."""
        begun = np.searchsorted(self._start, times, side="right")
        covered: Ints = self._length[begun]
        covered -= np.maximum(self._end[begun], times) - times
        return covered


def covered_share(a: Intervals, starts: Ints, ends: Ints) -> Floats:
    """The part of each window [starts[i], ends[i]) that the set covers; 0 of an empty one."""
    return np.asarray(coverage(a, starts, ends) / np.maximum(ends - starts, 1))


def exclusive(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """For intervals sorted by start, return the part of each that no earlier one covers; the parts are disjoint.

    Earlier intervals cover exactly the part before their latest end, since none of them starts after this one.
    """
    reached = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(ends)[:-1])) if len(ends) else ends
    uncovered = np.maximum(starts, reached)
    return uncovered, np.maximum(uncovered, ends)
