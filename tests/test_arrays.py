"""Long arrays numbered and ordered, against what numpy does in one general way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnose.arrays import among, combined, distinct, numbered, ordered, summed

near = st.integers(-3, 3)
number = near | st.integers(-(1 << 63), (1 << 63) - 1)
column = st.lists(number, max_size=12).map(lambda values: np.array(values, np.int64))
rows = st.lists(st.tuples(near, near, number), max_size=12)


@given(column)
def test_numbered_is_unique_with_its_inverse(values: np.ndarray) -> None:
    several, which = numbered(values)
    assert several.tolist() == distinct(values).tolist() == sorted(set(values.tolist()))
    assert several[which].tolist() == values.tolist()


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
