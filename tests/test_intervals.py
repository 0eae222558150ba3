"""Interval sets against sets of integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.intervals import (
    EMPTY,
    Intervals,
    blocks,
    clip,
    coverage,
    covered_before,
    exclusive,
    holds,
    intersect,
    intervals,
    longer_than,
    of_events,
    one,
    subtract,
    total,
    union,
    which_holds,
)

END = 40
instant = st.integers(0, END)
pairs = st.lists(st.tuples(instant, instant), max_size=8)  # reversed and empty ones too


def columns(given: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    table = np.array(given, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def of(given: list[tuple[int, int]]) -> Intervals:
    return intervals(*columns(given))


def points(given: list[tuple[int, int]]) -> set[int]:
    return {t for start, end in given for t in range(start, end)}


def inside(a: Intervals) -> set[int]:
    return points(a.tolist())


def is_canonical(a: Intervals) -> bool:
    """Sorted, not empty, and neither overlapping nor touching."""
    return a.dtype == np.int64 and bool((a[:, 0] < a[:, 1]).all() and (a[1:, 0] > a[:-1, 1]).all())


@given(pairs)
def test_intervals_hold_every_instant_once(a: list[tuple[int, int]]) -> None:
    assert inside(of(a)) == points(a)
    assert is_canonical(of(a))
    assert total(of(a)) == len(points(a))


@pytest.mark.parametrize("few", [0, 1, 100])
def test_few_intervals_are_looked_up_as_many_are(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(iv, "_FEW", few)
    a, b = of([(2, 5), (8, 9), (12, 20)]), of([(0, 3), (4, 8), (13, 14), (18, 30)])
    assert intersect(a, b).tolist() == [[2, 3], [4, 5], [13, 14], [18, 20]]
    assert subtract(a, b).tolist() == [[3, 4], [8, 9], [12, 13], [14, 18]]
    times = np.arange(-2, 24)
    assert times[holds(a, times)].tolist() == [2, 3, 4, 8, *range(12, 20)]
    ever = np.iinfo(np.int64)
    start, end = columns([(ever.min, ever.max), (4, 13), (9, 12), (7, 3), (ever.min, ever.min)])
    assert coverage(a, start, end).tolist() == [12, 3, 0, 0, 0]


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_events_in_blocks_are_the_same_set(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(iv, "_BLOCK", block)
    start, lasts = columns([(30, 4), (3, 9), (12, 2), (5, 1), (34, 0), (0, 40), (20, 5), (14, 3)])
    marked = np.array([True, True, True, True, True, False, True, True])
    assert of_events(start, lasts, marked).tolist() == [[3, 17], [20, 25], [30, 34]]
    assert of_events(start, lasts, ~marked).tolist() == [[0, 40]]
    assert of_events(start, lasts, np.zeros(8, bool)).tolist() == []


def test_blocks_cover_each_position_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iv, "_BLOCK", 3)
    assert [list(range(8))[block] for block in blocks(8)] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [list(range(8))[block] for block in blocks(8, 5)] == [[0, 1, 2, 3, 4], [5, 6, 7]]


@given(pairs, pairs)
def test_set_operations(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    for ours, theirs in [
        (union(of(a), of(b)), points(a) | points(b)),
        (intersect(of(a), of(b)), points(a) & points(b)),
        (subtract(of(a), of(b)), points(a) - points(b)),
    ]:
        assert inside(ours) == theirs
        assert is_canonical(ours)


@given(pairs, instant, instant)
def test_clip(a: list[tuple[int, int]], start: int, end: int) -> None:
    assert inside(clip(of(a), start, end)) == points(a) & set(range(start, end))


@given(pairs, st.lists(instant))
def test_covered_before(a: list[tuple[int, int]], times: list[int]) -> None:
    assert covered_before(of(a), np.array(times, np.int64)).tolist() == [
        sum(t < time for t in points(a)) for time in times
    ]


@given(pairs, pairs)
def test_coverage_of_windows(a: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    covered = [len(points(a) & set(range(start, end))) for start, end in windows]
    assert coverage(of(a), *columns(windows)).tolist() == covered


@given(st.lists(st.tuples(instant, instant).map(sorted), max_size=8).map(sorted))
def test_exclusive_parts_are_what_no_earlier_interval_covers(a: list[tuple[int, int]]) -> None:
    starts, ends = exclusive(*columns(a))
    earlier: set[int] = set()
    for (start, end), own_start, own_end in zip(a, starts.tolist(), ends.tolist(), strict=True):
        assert set(range(own_start, own_end)) == set(range(start, end)) - earlier
        earlier |= set(range(start, end))


@given(pairs, st.integers(0, 10))
def test_longer_than(a: list[tuple[int, int]], ns: int) -> None:
    assert longer_than(of(a), ns).tolist() == [[s, e] for s, e in of(a).tolist() if e - s > ns]


def test_touching_intervals_become_one() -> None:
    assert of([(5, 9), (1, 5)]).tolist() == [[1, 9]]


def test_one() -> None:
    assert one(3, 7).tolist() == [[3, 7]]
    assert one(7, 7) is EMPTY


def test_nothing() -> None:
    assert len(union()) == 0
    assert total(EMPTY) == 0
    assert len(intersect(EMPTY, one(0, 5))) == 0
    assert coverage(EMPTY, *columns([(0, 9)])).tolist() == [0]
    assert [len(part) for part in exclusive(*columns([]))] == [0, 0]


@given(pairs, st.lists(instant, max_size=8))
def test_holds_tells_each_instant(a: list[tuple[int, int]], times: list[int]) -> None:
    assert holds(of(a), np.array(times, np.int64)).tolist() == [time in points(a) for time in times]


@given(st.lists(st.tuples(instant, instant), max_size=6), st.lists(instant, max_size=30), st.booleans())
def test_a_time_is_held_by_the_last_interval_that_has_begun(
    pairs: list[tuple[int, int]], at: list[int], rise: bool
) -> None:
    windows = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    times = sorted(at) if rise else at
    last = [max((i for i, (begin, _) in enumerate(windows.tolist()) if begin <= t), default=-1) for t in times]

    found = which_holds(windows, np.array(times, np.int64))

    assert found.tolist() == [i if i >= 0 and t < windows[i, 1] else -1 for i, t in zip(last, times, strict=True)]
