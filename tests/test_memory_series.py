"""The memory of devices over a trace: few buckets, which no division of the file changes and no peak leaves."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import saved, small_job

from diagnose.arrays import ABSENT
from diagnose.trace import read
from diagnose.trace.memory_series import HOST, MOST_BUCKETS, joined_series, memory_series
from diagnose.trace.reader import read_part, trace_of
from diagnose.trace.shares import shares_of


def told(ts: Any, allocated: Any) -> Any:
    """Allocations of device 0, as `memory_series` takes them."""
    ts, allocated = np.array(ts, np.int64), np.array(allocated, np.int64)
    return np.array([ts, allocated, allocated + 7, np.zeros_like(ts), np.ones_like(ts)], np.int64)


@given(st.integers(0, 1 << 32), st.integers(1, 62), st.lists(st.integers(0, 3000), max_size=4))
def test_no_division_changes_the_buckets(seed: int, magnitude: int, cuts: list[int]) -> None:
    draw = np.random.default_rng(seed)
    rows = told(draw.integers(-(1 << magnitude), 1 << magnitude, 3000), draw.integers(0, 1 << 40, 3000))
    parts = np.split(rows, sorted(cuts), axis=1)
    whole = memory_series(*rows)[0]
    assert joined_series(memory_series(*part) for part in parts) == {0: whole}
    assert len(whole.at) <= MOST_BUCKETS
    assert (whole.most.max(), whole.least.min()) == (rows[1].max(), rows[1].min())
    assert whole.last[-1] == rows[1][np.flatnonzero(rows[0] == rows[0].max())[-1]]


def test_a_peak_of_one_allocation_among_a_million_stays() -> None:
    allocated = np.full(1_000_000, 5)
    allocated[123_456] = 1 << 35
    series = memory_series(*told(np.arange(1_000_000) * 1000, allocated))[0]
    at = int(series.most.argmax())
    assert series.most[at] == 1 << 35
    assert abs(int(series.at[at]) - 123_456_000) < 1 << series.shift


def test_what_states_no_total_or_no_time_is_no_allocation() -> None:
    lacking = np.array(
        [[5, np.iinfo(np.int64).min, 5, 5], [ABSENT, 1, 1, 1], [9, 9, 9, 9], [0, 0, 64, 0], [1, 1, 1, 7]]
    )
    assert memory_series(*lacking) == {}


def test_a_total_without_what_is_reserved() -> None:
    series = memory_series(*np.array([[5], [3], [ABSENT], [ABSENT], [0]]))
    assert series[HOST].reserved.tolist() == [ABSENT]


@pytest.mark.usefixtures("either_reader")
def test_shares_of_a_file_have_the_memory_of_the_whole(tmp_path: Path) -> None:
    job = small_job()
    for at in range(900):
        job.now += 1000 * (at % 17)
        job.memory(512, 1000 * (at * 37 % 211), 300_000)
    path = saved(tmp_path / "t.json", json.dumps(job.json()).encode())
    whole = read(path)
    assert trace_of([read_part(path, share) for share in shares_of(path, 3)]).memory == whole.memory
    assert whole.memory[0].most.max() == 210_000
