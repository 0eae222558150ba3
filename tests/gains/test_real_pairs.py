"""benchmarks/promises.py: real pairs of runs say where in its range a gain lies, and how good a value that makes."""

from dataclasses import replace
from pathlib import Path

import pytest
from promises import FEWEST, Pair, errors, kept_pairs, low_end, middle, positions_table, reported, written

DATA = Path(__file__).parents[2] / "diagnose" / "data"


def pair(job: str, low: float, high: float, measured: float) -> Pair:
    return Pair(job, "data-wait", low, high, measured, "2 cores")


A, B = pair("a", 1, 4, 2), pair("b", 1, 16, 8)
MISSED = pair("c", 1, 2, 9)


def test_the_likely_value_lies_where_gains_inside_their_ranges_lie() -> None:
    assert (A.position, B.position) == (0.5, 0.75)
    assert middle([A, A, B]) == 0.5
    assert middle([A, MISSED]) == 0.5


def test_the_error_of_a_pair_is_by_the_other_pairs() -> None:
    other = pair("c", 1, 4, 2)

    assert errors([A, other, B]) == pytest.approx([4**0.625 / 2 - 1, 4**0.625 / 2 - 1, 1 - 16**0.5 / 8])


def test_the_low_end_lies_where_eight_in_ten_gains_are_in_the_range() -> None:
    inside, below = [pair("x", 1.1, 4.4, 1.1 * 4**0.5)] * 80, [pair("y", 1.1, 4.4, 1.1 * 4**0.2)] * 20

    assert low_end(inside + below) == pytest.approx(0.5)
    assert low_end([*inside, MISSED, *below]) == pytest.approx(0.2)
    assert low_end(inside[: FEWEST - 1]) == 0
    assert low_end([pair("may gain nothing", 0.9, 4, 1)] * FEWEST) == pytest.approx(0.95)


def test_a_promised_range_is_read_back_as_worst_and_best_case() -> None:
    narrowed = Pair("a", "data-wait", 2.0, 4.0, 2.0, "2 cores", low_at=0.5)

    assert (narrowed.at(0), narrowed.at(0.5), narrowed.at(1)) == pytest.approx((1, 2, 4))
    assert narrowed.position == pytest.approx(0.5)


def test_pairs_are_read_as_they_were_written(tmp_path: Path) -> None:
    whole = replace(A, noise=0.1, low_at=0.35)

    written([whole, B], tmp_path)

    assert kept_pairs(tmp_path) == [whole, B]


def test_the_shipped_positions_are_those_of_the_pairs() -> None:
    assert positions_table({"cpu": kept_pairs()}) in (DATA / "positions.toml").read_text()


def test_the_pairs_of_the_repository_are_read() -> None:
    assert len(kept_pairs()) > 25
    assert len(reported()) > 15
