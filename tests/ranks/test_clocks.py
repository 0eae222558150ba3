"""The ranks' clocks by the ends of what they share, and waiting by start times on them."""

from collections.abc import Callable

import numpy as np
import pytest
from digests import MS, US, Shared, digests, together
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from diagnose.arrays import Ints
from diagnose.ranks import GroupMatch, RankDigest, match
from diagnose.ranks.collectives.clocks import Alignment, align, align_all, clocks_of, torn_hosts
from diagnose.ranks.report import agreement, by_start

Clock = Callable[[int, Ints], Ints]


def shared(
    ranks: range, count: int = 60, *, every_ns: int = 10 * MS, name: str = "0", seed: int = 0, **more: str
) -> Shared:
    """Collectives that each rank enters up to 2 ms after the first and leaves within 2 us of the others."""
    random = np.random.default_rng(seed)
    arrive = np.arange(count)[:, None] * every_ns + random.integers(0, 2 * MS, (count, len(ranks)))
    found = together(name, ranks, arrive, 200 * US, np.arange(count) * 3 // count, **more)
    return Shared(
        name, found.ranks, arrive, found.end + random.integers(0, 2 * US, arrive.shape), found.step, found.kind
    )


def skewed(offset_ns: int, ppm: float = 0) -> Clock:
    """Rank r's clock is `r * offset_ns` ahead and runs `r * ppm` fast."""
    return lambda rank, times: times + rank * offset_ns + np.rint(times * (rank * ppm * 1e-6)).astype(np.int64)


def aligned(ranks: list[RankDigest]) -> tuple[tuple[GroupMatch, ...], Alignment]:
    found = match(ranks)
    assert isinstance(found, tuple)
    return found, align(ranks, found)


@settings(max_examples=60, deadline=None, database=None)
@given(st.lists(st.integers(-(10**12), 10**12), min_size=2, max_size=5), st.integers(0, 99))
def test_offsets_are_found_within_the_residual(offsets: list[int], seed: int) -> None:
    ahead = [0, *offsets]
    ranks = digests([shared(range(len(ahead)), seed=seed)], clock=lambda rank, times: times + ahead[rank])

    _, found = aligned(ranks)

    error = np.abs(found.offset + np.array(ahead))
    assert (error <= np.maximum(found.residual, 1)).all()
    assert (found.residual[1:] < 2 * US).all()


@pytest.mark.parametrize(
    ("every_ms", "ppm", "seen"), [(100, 20, True), (1000, 2, True), (1, 2, False), (100, 0, False)]
)
def test_drift_is_stated_where_the_window_is_long_enough(every_ms: int, ppm: float, seen: bool) -> None:
    ranks = digests([shared(range(3), every_ns=every_ms * MS)], clock=skewed(5 * MS, ppm))

    _, found = aligned(ranks)
    drifts = [clock.drift_ppm for clock in clocks_of(ranks, found)]

    if seen:
        assert drifts[0] is None
        assert drifts[1:] == pytest.approx([-ppm, -2 * ppm], rel=0.1)
    else:
        assert drifts == [None] * 3


def test_drifting_clocks_agree_after_the_fit() -> None:
    ranks = digests([shared(range(3), every_ns=100 * MS)], clock=skewed(5 * MS, 40))

    (group,), found = aligned(ranks)
    ends = found.aligned(group.members, group.end + ranks[0].base_ns)

    assert np.ptp(ends, axis=1).max() < 10 * US


def test_ranks_that_share_no_group_with_the_first_are_reached_through_others() -> None:
    chain = [shared(range(i, i + 2), name=str(i)) for i in range(4)]
    ranks = digests(chain, clock=skewed(3 * MS))

    _, found = aligned(ranks)

    assert np.abs(found.offset + 3 * MS * np.arange(5)).max() < 4 * US
    assert (np.diff(found.residual) > 0).all(), "each link adds its own error"


def test_ranks_that_nothing_joins_have_no_offset() -> None:
    ranks = digests([shared(range(2), name="1"), shared(range(2, 4), name="1")])

    _, found = aligned(ranks)

    assert [clock.offset_ns is None for clock in clocks_of(ranks, found)] == [False, False, True, True]


@pytest.mark.parametrize("kind", ["broadcast", "reduce", "sendrecv"])
def test_collectives_that_a_rank_may_leave_early_align_nothing(kind: str) -> None:
    ranks = digests([shared(range(2)), shared(range(2, 4), name="1"), shared(range(4), name="2", kind=kind)])

    _, found = aligned(ranks)

    assert found.known.tolist() == [True, True, False, False]


def test_for_an_order_a_broadcast_reaches_those_that_nothing_better_does() -> None:
    ranks = digests(
        [shared(range(2)), shared(range(2, 4), name="1"), shared(range(1, 3), name="2", kind="broadcast")],
        clock=skewed(3 * MS),
    )
    matched, symmetric = aligned(ranks)

    found = align_all(ranks, matched)

    assert symmetric.known.tolist() == [True, True, False, False]
    assert found.known.all()
    assert np.abs(found.offset + 3 * MS * np.arange(4)).max() < 10 * US


def test_a_symmetric_collective_sets_a_clock_before_a_broadcast_does() -> None:
    """The root of the broadcast leaves 2 ms before the others, which would pass for a clock that is 2 ms ahead."""
    arrive = np.arange(60)[:, None] * 10 * MS + np.array([0, 2 * MS])
    early = Shared("1", (0, 1), arrive, arrive + 200 * US, np.arange(60) // 20, "broadcast")
    ranks = digests([early, shared(range(2))], clock=skewed(5 * MS))
    matched, symmetric = aligned(ranks)

    found = align_all(ranks, matched)

    assert (found.offset == symmetric.offset).all()
    assert abs(found.offset[1] + 5 * MS) < 4 * US


def test_for_an_order_ranks_that_nothing_joins_to_the_first_stand_right_to_each_other() -> None:
    ranks = digests([shared(range(2), name="1"), shared(range(2, 4), name="1")], clock=skewed(3 * MS))
    matched, _ = aligned(ranks)

    found = align_all(ranks, matched)

    assert found.known.all()
    assert abs((found.offset[3] - found.offset[2]) + 3 * MS) < 4 * US


def test_two_collectives_give_an_offset_but_no_residual() -> None:
    ranks = digests([shared(range(2), count=2)], clock=skewed(5 * MS))

    _, found = aligned(ranks)
    (_, clock) = clocks_of(ranks, found)

    assert clock.offset_ns == pytest.approx(-5 * MS, abs=2 * US)
    assert clock.residual_ns is None


def test_waiting_by_start_is_waiting_by_duration_where_the_ends_are_together() -> None:
    ranks = digests([shared(range(4))], clock=skewed(7 * MS))

    (group,), found = aligned(ranks)
    own = by_start(ranks, group, found)

    assert own is not None
    assert np.abs(own.waiting - group.waiting).max() < 10 * US
    assert np.abs(own.transfer - 200 * US).max() < 10 * US
    assert agreement(ranks, (group,), found) == pytest.approx(1, abs=0.02)


def test_the_two_disagree_where_a_root_leaves_before_the_others_come() -> None:
    arrive = np.arange(60)[:, None] * 10 * MS + np.array([0, 3 * MS, 3 * MS])
    left = arrive + np.array([50 * US, 200 * US, 200 * US])
    early = Shared("1", (0, 1, 2), arrive, left, np.arange(60) // 20, "broadcast")
    ranks = digests([shared(range(3)), early], clock=skewed(5 * MS))

    groups, found = aligned(ranks)

    own = next(by_start(ranks, g, found) for g in groups if g.group.name == "1")
    assert own is not None
    assert own.waiting[:, 0].min() > 2.9 * MS, "of which durations know nothing"
    share = agreement(ranks, groups, found)
    assert share is not None
    assert share < 0.9


def test_waiting_below_three_residuals_is_not_claimed() -> None:
    random = np.random.default_rng(0)
    arrive = np.arange(60)[:, None] * 10 * MS + random.integers(0, US, (60, 3))
    ends = arrive + 200 * US + random.integers(0, 2 * US, (60, 3))
    ranks = digests([Shared("0", (0, 1, 2), arrive, ends, np.arange(60) // 20)])

    (group,), found = aligned(ranks)
    own = by_start(ranks, group, found)

    assert own is not None
    assert own.waiting.max() == 0
    assert agreement(ranks, (group,), found) is None


@pytest.mark.parametrize(("host", "torn"), [("node7", ((1,), "clock")), ("", None), ("localhost", None)])
def test_one_host_with_two_clocks_has_other_collectives_taken_for_the_same(
    host: str, torn: tuple[tuple[int, ...], str] | None
) -> None:
    clock = lambda rank, times: times + (12 * MS if rank == 1 else 0)  # noqa: E731
    ranks = [replace(rank, host=host) for rank in digests([shared(range(4))], clock=clock)]

    matched, found = aligned(ranks)
    said = torn_hosts(ranks, matched, found)

    assert [(m.ranks, m.kind) for m in said] == ([torn] if torn else [])
    assert all("rank 1 on host node7" in m.says and "12.0 ms" in m.says for m in said)
