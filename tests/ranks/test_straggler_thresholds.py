"""Both sides of each threshold of the stragglers, in numbers."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from diagnose.ranks.host_work import HostTime
from diagnose.ranks.stragglers.causes import Ratio, _judged, clock_words, ratios
from diagnose.ranks.stragglers.evidence import (
    LatenessEvidence,
    _significant,
    evidence_of,
    possible_straggler,
    stragglers_among,
)
from diagnose.ranks.stragglers.few_steps import NEVER, Slowest, is_apart
from diagnose.ranks.stragglers.host_code import host_evidence, more_code

STEP = 1_000_000


def evidence(
    late: Sequence[int],
    others: Sequence[int] = (0, 0, 0),
    caused: Sequence[int] | None = None,
    by_others: int = 0,
    slowest: Slowest = NEVER,
) -> LatenessEvidence:
    """Ranks whose steps take a millisecond, of which the last is behind by so many parts of a thousand of each step.

    Each of the others is behind by its number in all steps. `caused` is what they all wait for the last one, and
    `by_others` what is waited for the first.
    """
    steps, ranks = len(late), len(others) + 1
    own = np.array([*([each] * steps for each in others), list(late)]) * (STEP // 1000)
    waited = np.zeros((ranks, steps), np.int64)
    waited[-1] = np.array(late if caused is None else caused) * (STEP // 1000) * (1 if caused else len(others))
    waited[0] = by_others * (STEP // 1000)
    return LatenessEvidence(
        caused_ns=waited,
        own_ns=own,
        step_ns=np.full(steps, STEP),
        noise_share=0.05,
        votes=np.zeros(ranks, np.int64),
        peers=~np.eye(ranks, dtype=bool),
        work_ns=tuple(np.full(steps, STEP) for _ in range(ranks)),
        slowest=(*[NEVER] * len(others), slowest),
        seen=np.ones((ranks, steps), bool),
    )


@pytest.mark.parametrize(
    ("late", "named"),
    [
        ([200] * 7 + [0] * 3, (3,)),  # late in seven of ten steps
        ([200] * 6 + [0] * 4, ()),
        ([60, 60, 60, 48], (3,)),  # of four steps three are enough
        ([60, 60, 48], ()),  # of three all are needed
        ([60, 60, 60], (3,)),
    ],
)
def test_a_late_rank_is_late_in_two_thirds_of_the_steps_and_in_all_of_three(
    late: list[int], named: tuple[int, ...]
) -> None:
    assert stragglers_among(evidence(late)) == named


@pytest.mark.parametrize(("waited", "named"), [(18, (3,)), (15.5, ())])
def test_a_third_of_the_lateness_is_seen_as_waiting(waited: float, named: tuple[int, ...]) -> None:
    """Noise is 5 % of the step, and each of three other ranks waits for a third of that: 16.7 parts of a thousand."""
    found = evidence([100, 101, 100, 101, 100, 101], caused=[round(3 * waited)] * 6)

    assert stragglers_among(found) == named


@pytest.mark.parametrize(
    ("late", "others", "named"),
    [
        (70, (0, 10, 20, 30, 40), ()),  # 50 parts from the median, of ranks 10 parts apart: 3.4 of their deviations
        (75, (0, 10, 20, 30, 40), (5,)),  # 3.7
        (57, (30, 30, 30, 30, 30), (5,)),  # of ranks that are alike, the deviation is 5 parts: 3.6
        (55, (30, 30, 30, 30, 30), ()),  # 3.4
    ],
)
def test_a_late_rank_is_an_outlier_among_all_by_three_and_a_half_deviations(
    late: int, others: tuple[int, ...], named: tuple[int, ...]
) -> None:
    assert stragglers_among(evidence([late, late + 1] * 4, others)) == named


@pytest.mark.parametrize(
    ("waited", "by_others", "suspected"),
    [
        (390, 0, 3),  # three ranks wait 375 parts of a thousand: 2.5 times what is noise
        (360, 0, None),
        (500, 110, 3),  # 82 % of all waiting
        (500, 140, None),  # 78 %
    ],
)
def test_a_rank_is_suspected_for_most_of_the_waiting_far_beyond_noise(
    waited: int, by_others: int, suspected: int | None
) -> None:
    found = evidence([60], caused=[waited], by_others=by_others)

    assert stragglers_among(found) == ()
    assert possible_straggler(found, ()) == suspected


@pytest.mark.parametrize(
    ("signs", "spread", "steady"),
    [
        ([1, -1] * 10, 1.70, True),  # one in a hundred leads of 20 steps is 2.54 times its error
        ([1, -1] * 10, 1.73, False),
        ([1, -1] * 2, 0.375, True),  # of four steps 4.54 times
        ([1, -1] * 2, 0.385, False),
        ([1, 0, -1], 0.40, True),  # one in forty leads of three steps is 4.30 times its error
        ([1, 0, -1], 0.41, False),
    ],
)
def test_a_lead_is_no_chance_by_the_t_test(signs: list[int], spread: float, steady: bool) -> None:
    lead = (1 + spread * np.array(signs)) * 1000

    assert _significant(lead.astype(np.int64)) is steady


@pytest.mark.parametrize(("gpu", "late", "named"), [(True, 55, 0.05), (False, 55, 0.10)])
def test_noise_is_five_per_cent_of_the_step_and_ten_on_the_host(
    gpu: bool, late: int, named: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler of a host moves its ranks apart."""
    module = "diagnose.ranks.stragglers.evidence"
    for name in ("_step_ns", "votes_of", "_peers", "own_steps", "slowest_of"):
        monkeypatch.setattr(f"{module}.{name}", lambda *_: np.full(2, STEP))
    rank: Any = SimpleNamespace(has_gpu=gpu)
    lateness: Any = SimpleNamespace(own_ns=np.full((2, 2), late), group=np.zeros((2, 2), np.int64))

    assert evidence_of([rank, rank], (), lateness, np.zeros((2, 2), np.int64)).noise_share == pytest.approx(named)


@pytest.mark.parametrize(
    ("late", "usual", "apart"),
    [
        ([1.30, 1.31], [[1.0, 1.02]], True),  # a quarter of the step beyond the longest of the others
        ([1.25, 1.31], [[1.0, 1.02]], False),
        ([1.65, 1.7], [[1.0, 1.2]], True),  # beyond it by twice their range
        ([1.58, 1.7], [[1.0, 1.2]], False),
    ],
)
def test_two_steps_are_apart_by_a_quarter_of_the_step_and_twice_the_range_of_the_others(
    late: list[float], usual: list[list[float]], apart: bool
) -> None:
    steps = [np.array([round(STEP * each) for each in rank]) for rank in (late, *usual)]

    assert is_apart(steps[0], steps[1:], STEP) is apart


@pytest.mark.parametrize(("lead", "named"), [(430, (1,)), (370, ())])
def test_a_single_step_tells_by_a_lead_of_two_fifths_where_collectives_agree(lead: int, named: tuple[int, ...]) -> None:
    assert stragglers_among(evidence([lead], (0,), slowest=Slowest(12, 12))) == named


@pytest.mark.parametrize(("at", "of", "percent", "no_chance"), [(20, 26, 0.94, True), (18, 23, 1.06, False)])
def test_the_slowest_of_two_is_no_chance_at_one_per_cent(at: int, of: int, percent: float, no_chance: bool) -> None:
    assert 100 * Slowest(at, of).chance(2) == pytest.approx(percent, abs=0.01)
    assert Slowest(at, of).is_no_chance(2) is no_chance


def ratio(time: float, count: float = 1.0, size: float | None = 1.0) -> Ratio:
    return Ratio("gemm", 1e6, time, count, size, None)


@pytest.mark.parametrize(
    ("of", "tokens", "cause"),
    [
        (ratio(1.4, size=1.21), None, "more_work"),  # half of the longer time
        (ratio(1.4, size=1.19), None, "slower_kernels"),
        (ratio(1.08, size=None), 1.06, "more_work"),  # five per cent more tokens
        (ratio(1.06, size=None), 1.04, "slower_kernels"),
    ],
)
def test_half_of_the_longer_time_is_more_work_or_the_kernels_are_slower(
    of: Ratio, tokens: float | None, cause: str
) -> None:
    assert _judged({"gemm": 1000}, [of], tokens)[0] == cause


@pytest.mark.parametrize(("share", "told"), [(0.011, 2), (0.009, 1)])
def test_a_family_of_a_hundredth_of_the_kernel_time_tells(share: float, told: int) -> None:
    work = {"gemm": (1e6 * (1 - share), 1.0, 1e6, 1e6), "norm": (1e6 * share, 1.0, 1e4, 1e4)}
    rank: Any = SimpleNamespace(work_per_step=lambda _: work, steps=1)

    assert len(ratios(rank, [rank, rank])) == told


def host(work: dict[tuple[str, str], tuple[float, int]], host_ms: float = 100.0) -> Any:
    """A rank of one step, with the milliseconds and calls of what its host ran."""
    ran = {name: HostTime(round(ms * 1e6), count) for name, (ms, count) in work.items()}
    return SimpleNamespace(host_work=ran, steps=1, host_ns=round(host_ms * 1e6))


def operators(times: float, count: int = 3) -> dict[tuple[str, str], tuple[float, int]]:
    return {("operator", f"aten::op{number}"): (10.0 * times, 10) for number in range(count)}


@pytest.mark.parametrize(
    ("times", "late_ms", "code"),
    [
        (1.05, 4, "slower"),  # four per cent is beyond noise
        (1.03, 2, "more"),
        (1.22, 29, "slower"),  # 41 % longer, of which half
        (1.19, 29, "more"),
    ],
)
def test_a_host_is_slower_where_its_operators_are_by_half_of_the_lateness(
    times: float, late_ms: float, code: str
) -> None:
    assert host_evidence(host(operators(times)), [host(operators(1.0))] * 2, late_ms * 1e6).code == code


@pytest.mark.parametrize(("count", "code"), [(3, "slower"), (2, "unknown")])
def test_three_operators_are_compared_at_least(count: int, code: str) -> None:
    assert host_evidence(host(operators(1.5, count)), [host(operators(1.0, count))] * 2, 30e6).code == code


@pytest.mark.parametrize(("ms", "named"), [(15.5, True), (14.5, False)])
def test_a_place_is_named_that_accounts_for_half_of_the_lateness(ms: float, named: bool) -> None:
    place = {("range", "validate"): (ms, 1)}

    assert ("validate" in host_evidence(host(operators(1.0) | place), [host(operators(1.0))] * 2, 30e6).where) is named


@pytest.mark.parametrize(("calls", "named"), [(112, True), (108, False)])
def test_what_runs_more_often_runs_a_tenth_more_often(calls: int, named: bool) -> None:
    more, usual = host({("range", "log"): (60.0, calls)}), host({("range", "log"): (10.0, 100)})

    assert ("log" in more_code(more, [usual, usual], 30e6).where) is named


@pytest.mark.parametrize(("mhz", "says"), [(1460, "not what makes it slower"), (1450, "the others' at 1,500 MHz")])
def test_a_clock_within_three_per_cent_of_the_others_is_not_what_makes_a_rank_late(mhz: float, says: str) -> None:
    late, usual = (SimpleNamespace(clock=SimpleNamespace(mhz=each, held_by=())) for each in (mhz, 1500.0))
    given: Any = (late, [usual, usual])

    assert clock_words(*given).endswith(says)


@pytest.mark.parametrize(
    ("late", "named"),
    [
        ([0] * 5 + [200] * 5, (3,)),
        ([0] * 6 + [200] * 4, ()),  # too few to last
        ([0] * 4 + [200] * 5 + [0], ()),  # it was late, and is no more
        ([200, 0, 0, 0] + [200] * 5, (3,)),  # in two thirds of all steps
        ([200] + [0] * 7 + [200] * 5, ()),  # it comes and goes
    ],
)
def test_a_rank_that_gets_slower_is_late_in_five_steps_at_the_end(late: list[int], named: tuple[int, ...]) -> None:
    assert stragglers_among(evidence(late)) == named
