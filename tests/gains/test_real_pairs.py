"""benchmarks/promises.py: real pairs of runs say where in its range a gain lies, and how good a value that makes."""

from dataclasses import replace
from pathlib import Path

import pytest
from promises import Pair, errors, kept_pairs, middle, positions_table, reported, usual, written

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


def test_pairs_are_read_as_they_were_written(tmp_path: Path) -> None:
    whole = replace(A, noise=0.1)

    written([whole, B], tmp_path)

    assert kept_pairs(tmp_path) == [whole, B]


def test_the_shipped_positions_are_those_of_the_pairs() -> None:
    pairs = kept_pairs()

    assert positions_table({"cpu": pairs}, {"cpu": usual(pairs)}) in (DATA / "positions.toml").read_text()


def test_the_pairs_of_the_repository_are_read() -> None:
    assert len(kept_pairs()) > 25
    assert len(reported()) > 15
