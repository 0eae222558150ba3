"""Long arrays numbered and ordered, against what numpy does in one general way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnose.arrays import (
    Coded,
    Labels,
    among,
    combined,
    counted,
    distinct,
    first_of,
    marked,
    numbered,
    ordered,
    rows_in,
    shortened,
    shortly_numbered,
    summed,
)

near = st.integers(-3, 3)
number = near | st.integers(-(1 << 63), (1 << 63) - 1)
column = st.lists(number, max_size=12).map(lambda values: np.array(values, np.int64))
rows = st.lists(st.tuples(near, near, number), max_size=12)


@given(column)
def test_numbered_is_unique_with_its_inverse(values: np.ndarray) -> None:
    several, which = numbered(values)
    assert several.tolist() == distinct(values).tolist() == sorted(set(values.tolist()))
    assert several[which].tolist() == values.tolist()
    assert [each.tolist() for each in shortly_numbered(values)] == [several.tolist(), which.tolist()]


@given(column)
def test_counted_tells_how_often_each_is_there(values: np.ndarray) -> None:
    several, times = counted(values)
    assert dict(zip(several.tolist(), times.tolist(), strict=True)) == {
        value: values.tolist().count(value) for value in sorted(set(values.tolist()))
    }


@pytest.mark.parametrize("names", [3, 300, 70_000])
def test_marked_ids_are_those_of_marked_names(names: int) -> None:
    ids, marks = np.arange(names, dtype=np.int32)[::-1], np.zeros(names, bool)
    assert not marked(marks, shortened(ids, names)).any()
    marks[[0, names - 1]] = True
    assert np.flatnonzero(marked(marks, shortened(ids, names))).tolist() == [0, names - 1]
    assert marked(~marks, shortened(ids, names)).tolist() == (~marks[ids]).tolist()


def test_labels_are_the_texts_that_they_stand_for() -> None:
    labels = Labels.of(["b", "", "b", "c"], np.array([3, 0, 1, 2]))
    assert labels.tolist() == ["c", "b", "", "b"]
    assert labels.are("b").tolist() == [False, True, False, True]
    assert not labels.are("of none").any()
    assert labels[np.array([1, 2])].there() == ["", "b"]
    assert labels.numbered(("unknown", "c", "b")).tolist() == [1, 2, 0, 2]
    assert labels.but(labels.are(""), "a").tolist() == ["c", "b", "a", "b"]
    other = Labels.all_alike("z", 4)
    assert labels.otherwise(np.array([True, False, True, False]), other).tolist() == ["c", "z", "", "z"]
    assert Labels.of([], np.zeros(0, np.int64)).tolist() == []


def test_numbered_keeps_the_type() -> None:
    assert numbered(np.array([7, 5, 7], np.int32))[0].dtype == np.int32


@pytest.mark.parametrize("width", [np.int8, np.int16])
def test_numbered_over_nearly_all_of_a_narrow_type(width: type) -> None:
    """Such a column has differences that its own type cannot hold."""
    limits = np.iinfo(width)
    values = np.arange(limits.min + 20, limits.max + 1).astype(width)
    several, which = numbered(values[::-1])
    assert several.tolist() == distinct(values).tolist() == values.tolist()
    assert which.tolist() == list(range(len(values)))[::-1]


@given(column, column)
def test_among_is_membership(values: np.ndarray, wanted: np.ndarray) -> None:
    assert among(values, wanted).tolist() == [value in wanted.tolist() for value in values.tolist()]


@given(column, column)
def test_the_first_of_equal_keys_is_found(keys: np.ndarray, wanted: np.ndarray) -> None:
    first = {key: at for at, key in reversed([*enumerate(keys.tolist())])}

    assert first_of(keys, wanted).tolist() == [first.get(each, -1) for each in wanted.tolist()]


@given(st.lists(st.integers(-9, 9), max_size=12), st.lists(st.integers(-99, 99), max_size=12))
def test_so_it_is_where_keys_lie_close(keys: list[int], wanted: list[int]) -> None:
    first = {key: at for at, key in reversed([*enumerate(keys)])}

    assert first_of(np.array(keys, np.int8), np.array(wanted, np.int16)).tolist() == [first.get(w, -1) for w in wanted]
    assert among(np.array(wanted, np.int16), np.array(keys, np.int8)).tolist() == [w in keys for w in wanted]


@given(rows)
def test_ordered_sorts_by_each_in_turn_and_keeps_the_order_of_equal_ones(
    given_rows: list[tuple[int, int, int]],
) -> None:
    columns = np.array(given_rows, np.int64).reshape(-1, 3).T
    expected = sorted(range(len(given_rows)), key=lambda at: given_rows[at])
    assert ordered(*columns).tolist() == expected


@given(rows)
def test_combined_ascends_as_the_rows_do(given_rows: list[tuple[int, int, int]]) -> None:
    numbers = combined(*np.array(given_rows, np.int64).reshape(-1, 3).T).tolist()
    for (one, its), (other, others) in zip(
        zip(given_rows, numbers, strict=True), zip(given_rows[1:], numbers[1:], strict=True), strict=False
    ):
        assert (one < other, one == other) == (its < others, its == others)


def test_sums_beyond_what_doubles_hold_are_exact() -> None:
    which, values = np.array([0, 2, 0, 2]), np.array([1 << 53, 7, 1, -9])
    assert summed(which, values, 4).tolist() == [(1 << 53) + 1, 0, -2, 0]
    assert summed(which, np.array([5, 7, 1, -9]), 4).tolist() == [6, 0, -2, 0]
    assert summed(which[:0], values[:0], 2).tolist() == [0, 0]


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]), st.sampled_from([0.0, 0.7, 1.0]), st.booleans()),
        max_size=9,
    )
)
def test_coded_numbers_are_multiplied_bit_for_bit_as_those_that_they_stand_for(
    given_rows: list[tuple[float, float, bool]],
) -> None:
    a, b = (np.array([row[at] for row in given_rows], np.float64) for at in (0, 1))
    where = np.array([row[2] for row in given_rows], bool)
    coded, every = Coded.of(a), np.arange(len(a))

    assert len(coded) == len(a)
    assert np.array_equal(coded[every], a)
    assert np.array_equal(coded.where(coded.values < 1), a < 1)
    assert np.array_equal(coded.times(0.3, where)[every], np.where(where, a * 0.3, a))
    assert np.array_equal(coded.paired(Coded.of(b), np.multiply)[every], a * b)
    assert np.array_equal(Coded.ones(len(a))[every], np.ones(len(a)))


def test_many_distinct_numbers_are_coded_in_more_than_a_byte() -> None:
    a, b = np.arange(300) / 7, np.arange(300) / 3 + 1
    both = Coded.of(a).paired(Coded.of(b), np.multiply)

    assert np.array_equal(both[np.arange(300)], a * b)
    assert both.code.dtype.itemsize <= 4


def test_rows_take_32_bits_as_far_as_these_hold_them() -> None:
    rows = np.array([-1, 0, 7])

    assert rows_in(rows, 1 << 31).dtype == np.int32
    assert rows_in(rows, (1 << 31) + 1).dtype == np.int64
    assert rows_in(rows, 8).tolist() == rows.tolist()
