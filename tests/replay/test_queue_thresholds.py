"""Both sides of thresholds of starts that are late, calls that meet a full queue, and ranks that wait, in numbers."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from digests import MS, US, digests, together
from msgspec.structs import replace

from diagnose.predict.replay import device
from diagnose.predict.whatif import Predictor
from diagnose.ranks.replay import rank_work
from diagnose.ranks.stragglers.lateness import lateness_of


@pytest.mark.parametrize(("later_us", "late"), [(5.2, True), (4.8, False)])
def test_a_start_is_late_by_five_microseconds(later_us: float, late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(device, "_told_to_wait", lambda *_: np.zeros(2, bool))
    monkeypatch.setattr(device, "_latencies", lambda *_: np.zeros(2))
    monkeypatch.setattr(device, "_gaps", lambda *_: np.zeros(2))
    monkeypatch.setattr(device, "_edges", lambda gpu, due, late, held: (told.append(late), (np.full(2, -1), held))[1])

    class Gpu(SimpleNamespace):
        def __len__(self) -> int:
            return 2

    start = np.array([0, round(US * (10 + later_us))])
    gpu: Any = Gpu(start=start, end=start + 10 * US, launch_start=np.array([0, 1]), stream=np.array([1, 1]))
    device.starts_of(gpu, np.zeros(2, np.int64), np.zeros(0, np.int64))

    assert told[0].tolist() == [False, late]


def host_rank(steps: int = 2, **more: Any) -> Any:
    (rank,) = digests([together("0", [0], np.array([[0], [1000]]) * US, 100 * US, np.array([0, 0]))], steps=steps)
    return replace(rank, has_gpu=False, **more)


@pytest.mark.parametrize(("ago_ms", "ended"), [(0.95, 1), (1.05, 0)])
def test_a_collective_ended_a_wait_of_the_host_that_lasted_no_more_than_a_quarter_longer(
    ago_ms: float, ended: int
) -> None:
    """A wait of 4 ms: its thread may be without a CPU for one of them."""
    rank = host_rank(exposed=np.array([[0, 4 * MS]]))
    windows, end = np.array([[0, 9 * MS]]), np.array([round(MS * (4 - ago_ms))])

    blocks, _ = rank_work.stopped(rank, end - MS, end, windows)

    assert len(blocks) == ended


@pytest.mark.parametrize(("gap_us", "queued"), [(9.5, True), (10.5, False)])
def test_a_collective_was_queued_that_begins_ten_microseconds_after_the_one_before(gap_us: float, queued: bool) -> None:
    arrive = np.array([[0], [round(US * (100 + gap_us))]])
    (rank,) = digests([together("0", [0], arrive, 100 * US, np.array([0, 0]))], steps=1)

    assert rank_work.rank_work_of(rank, np.arange(2), 0.0, rank.windows).queued.tolist() == [False, queued]


@pytest.mark.parametrize(("steps", "judged"), [(3, 2), (2, 2)])
def test_the_first_of_three_steps_on_hosts_is_left_out(steps: int, judged: int) -> None:
    assert len(lateness_of([host_rank(steps)], (), []).numbers) == judged


@pytest.mark.parametrize(("low", "high", "least"), [(1.0, 1.10, 1.10 / 1.02), (1.09, 1.10, 1.10 / 1.02)])
def test_a_range_is_two_per_cent_wide_at_least(low: float, high: float, least: float) -> None:
    given: Any = SimpleNamespace(
        _gain=lambda rules, after, case: {"worst": low, "best": high}[case], _ends=lambda gain, *_: (gain, gain),
        _is_exact=lambda rules: False, _without_transfer=lambda *_: math.inf, _evident=lambda rules: 1.0,
        _with_what_no_replay_sees=lambda best, rules: best,
    )  # fmt: skip

    found = Predictor._range(given, (), ())

    assert found is not None
    assert found[0] == pytest.approx(min(low, least))
