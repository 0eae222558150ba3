"""Both sides of each threshold of what ranks share: clocks, messages, links and the joint replay, in numbers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from digests import MS, US, digests, together
from msgspec.structs import replace

from diagnose.facts import Unknown
from diagnose.ranks.collectives.clocks import _drift, _fitted, align, torn_hosts
from diagnose.ranks.collectives.matching import match
from diagnose.ranks.collectives.messages import Messages
from diagnose.ranks.network.bandwidth import bus_rate
from diagnose.ranks.network.slow_links import slow_links
from diagnose.ranks.network.traffic import Sample, _row
from diagnose.ranks.replay import changes
from diagnose.ranks.replay.buckets import buckets_of
from diagnose.ranks.replay.changes import changes_of
from diagnose.ranks.replay.data_waits import waits_for_data
from diagnose.ranks.report import by_start

MIB = 1 << 20


@pytest.mark.parametrize(("later_us", "claimed"), [(4.5, True), (4.1, False)])
def test_waiting_is_claimed_beyond_three_residuals_of_two_clocks(later_us: float, claimed: bool) -> None:
    """Of a microsecond each: 4.2 us."""
    start = np.array([[0, round(1000 * later_us)]])
    alignment: Any = SimpleNamespace(residual=np.array([1000.0, 1000.0]), aligned=lambda members, times: times)
    group: Any = SimpleNamespace(members=np.array([0, 1]), start=start, end=start + 9000)
    rank: Any = SimpleNamespace(base_ns=0)

    found = by_start([rank, rank], group, alignment)

    assert found is not None
    assert bool(found.waiting.any()) is claimed


@pytest.mark.parametrize(("count", "known"), [(3, True), (2, False)])
def test_a_residual_takes_three_collectives(count: int, known: bool) -> None:
    times = np.arange(count) * 1000

    assert bool(np.isfinite(_fitted(times, times[:, None]).residual).all()) is known


@pytest.mark.parametrize(("count", "seen"), [(12, True), (11, False)])
def test_a_drift_takes_twelve_collectives(count: int, seen: bool) -> None:
    times = np.arange(count)[:, None] * 1_000_000

    assert bool(_drift(times, times * 1e-3)[0] > 0) is seen


@pytest.mark.parametrize(("apart_ms", "torn"), [(5.1, 1), (4.9, 0)])
def test_clocks_of_one_host_are_five_milliseconds_apart_at_most(apart_ms: float, torn: int) -> None:
    """Collectives of 0.2 ms, which rank 2 enters and leaves so much later by its clock."""
    arrive = np.arange(60)[:, None] * 10 * MS + np.zeros((60, 3), np.int64)
    late = round(apart_ms * MS)
    shared = together("0", range(3), arrive, 200 * US, np.arange(60) // 20)
    ranks = [
        replace(rank, host="node1")
        for rank in digests([shared], clock=lambda rank, times: times + (late if rank == 2 else 0))
    ]
    matched = match(ranks)
    assert isinstance(matched, tuple)

    assert len(torn_hosts(ranks, matched, align(ranks, matched))) == torn


@pytest.mark.parametrize(("mib", "found"), [(1.05, True), (0.95, False)])
def test_a_reduction_of_a_mebibyte_is_of_gradients(mib: float, found: bool) -> None:
    one, texts = np.array([0]), np.array(["allreduce"])
    size = np.array([round(mib * MIB)])
    messages = Messages(one, texts, np.array(["float"]), size, size, one + 2, one, one + 1, one, np.array([False]))

    assert bool(messages.reduces_gradients[0]) is found


def calls(sizes: list[int], kind: str = "allreduce", ranks: int = 2) -> Any:
    """A rank on a GPU with a call of each of these sizes."""
    columns = SimpleNamespace(
        kinds=(kind,), kind=np.zeros(len(sizes), np.int64), bytes=np.array(sizes), size=np.full(len(sizes), ranks)
    )
    return SimpleNamespace(calls=columns, has_gpu=True, steps=1, total_ns=1, rank=0)


def group(count: int, transfer: list[int], first: int = 0) -> Any:
    rows = np.arange(count)[:, None] + np.zeros((1, 2), np.int64)
    return SimpleNamespace(
        members=np.array([first, first + 1]), call=rows, transfer=np.array(transfer), paired=False, absent=0
    )


@pytest.mark.parametrize(("mib", "known"), [(17, True), (15, False)])
def test_bandwidth_is_that_of_messages_of_sixteen_mebibytes(mib: int, known: bool) -> None:
    rate = bus_rate([calls([mib * MIB])] * 2, (group(1, [1000]),))

    assert isinstance(rate, Unknown) is not known


def test_bandwidth_is_what_the_best_tenth_reaches() -> None:
    sizes = [100 * MIB] * 11
    rate = bus_rate([calls(sizes)] * 2, (group(11, [1_000_000 * 1000 // n for n in range(1, 12)]),))

    best = bus_rate([calls(sizes[:1])] * 2, (group(1, [100_000_000]),))
    assert isinstance(rate, float)
    assert isinstance(best, float)
    assert rate == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize(("times", "slow"), [(1.6, 1), (1.4, 0)])
def test_a_link_is_slow_that_takes_half_as_long_again_as_the_others(times: float, slow: int) -> None:
    matched = tuple(group(1, [round(1000 * each)], 2 * at) for at, each in enumerate((1.0, 1.0, times)))

    assert len(slow_links([calls([MIB])] * 6, matched)) == slow


def test_two_groups_are_compared_and_one_is_not() -> None:
    both = (group(1, [1000]), group(1, [2000], 2))

    assert [len(slow_links([calls([MIB])] * 4, both[:count])) for count in (1, 2)] == [0, 1]


@pytest.mark.parametrize(("kib", "rated"), [(66, True), (60, False)])
def test_a_message_of_sixty_four_kibibytes_has_a_bandwidth(
    kib: int, rated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diagnose.ranks.network.traffic._expected", lambda *_: (None, None, ""))
    monkeypatch.setattr("diagnose.ranks.network.traffic._size", lambda *_: 2)
    one = np.array([1000])
    sample = Sample("allreduce", "0", (0, 1), kib << 10, True, one, one, 0, None)

    assert (_row(sample, [calls([1]), calls([1])], None).busbw_gbs is not None) is rated


@pytest.mark.parametrize(
    ("mib", "waited_for", "found"),
    [(1.05, 4, True), (0.95, 4, False), (4, 4, True), (4, 5, False)],
)
def test_gradients_travel_in_reductions_of_a_mebibyte_of_which_half_are_not_waited_for(
    mib: float, waited_for: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = np.arange(9)
    sizes = np.full(9, round(mib * MIB))
    monkeypatch.setattr("diagnose.ranks.replay.buckets.described", lambda *_: (np.array(["allreduce"] * 9), sizes))
    work: Any = SimpleNamespace(block_on=events[:waited_for], chains=[events])
    joint: Any = SimpleNamespace(transfer=np.zeros(9), work=[work], collective=[events], steps=3)

    assert bool(buckets_of([None], joint).any()) is found  # type: ignore[list-item]


@pytest.mark.parametrize(("waited", "tells"), [(5.1, True), (4.9, False)])
def test_a_rank_waits_for_data_from_a_twentieth_of_the_step_on(waited: float, tells: bool) -> None:
    rank: Any = SimpleNamespace(ns=lambda: {"data-wait": waited}, total_ns=100)

    assert waits_for_data(rank) is tells


@pytest.mark.parametrize(
    ("error", "gain", "told"),
    [(0.048, 1.02, 1), (0.052, 1.02, 0), (0.0, 1.0055, 1), (0.0, 1.0045, 0)],
)
def test_changes_are_told_of_a_replay_within_a_twentieth_that_gain_half_a_per_cent(
    error: float, gain: float, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    joint = SimpleNamespace(strict_error=error, job_step_ns=lambda: 1000.0)
    monkeypatch.setattr(changes, "joint_of", lambda *_: joint)
    for name in ("_cures", "_loaded"):
        monkeypatch.setattr(changes, name, lambda *_: ())
    monkeypatch.setattr(changes, "_candidates", lambda *_: [("faster", "says", lambda case: 1000.0 / gain)])
    monkeypatch.setattr(changes, "_with_cost", lambda change, _: change)

    assert len(changes_of([], (None,), [], None).changes) == told  # type: ignore[arg-type]
