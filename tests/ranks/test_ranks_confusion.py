"""benchmarks/ranks_confusion.py: what counts as right, and the tables."""

from dataclasses import replace
from pathlib import Path

import pytest
from ranks_cases import ANOTHER, NOBODY, SKEW, UNEVEN, UNTOLD, Case, Name, job_of, judged
from ranks_confusion import confusion, jobs_of, rates
from reporting import rate, wilson
from scipy import stats
from simulator import Fault, Job, simulate

from diagnose.analysis import analyze
from diagnose.report.views.job_words import waits_anyway

pytestmark = pytest.mark.long


def test_the_table_counts_the_named_cause_nobody_and_the_innocent() -> None:
    outcomes: list[tuple[Name, str]] = [("data", "data"), ("data", NOBODY), ("gc", ANOTHER), ("none", NOBODY)]
    found = [Case(name, outcome, 0.25, "", gain=(1.3, 1.3), priced=(1.2, 1.27)) for name, outcome in outcomes]

    text = confusion(found)

    assert "| data | data | 25% | 1 | 1 |  | 1/2 | 1/1 | 2.3% | 1.06 |" in text
    assert "| gc | gc | 25% |  |  | 1 | 0/1 |  |  |  |" in text
    assert "| none | nobody | 25% |  | 1 |  | 1/1 |  |  |  |" in text


def test_the_rates_count_what_matters() -> None:
    late = [Case("gc", outcome, 0.25, "", gain=(1.3, 1.3)) for outcome in ("gc", "gc", NOBODY, ANOTHER)]
    healthy = [
        Case("none", ANOTHER, 0.0, "", negative=True),
        Case("lengths", UNEVEN, 0.2, ""),
        Case("none", NOBODY, 0, ""),
    ]

    text = rates([*late, *healthy])

    assert f"named right, of faults worth naming | {rate(2, 4)}" in text
    assert f"not at fault, of jobs with a fault | {rate(1, 4)}" in text
    assert f"nobody is persistently at fault | {rate(1, 3)}" in text
    assert f"uneven work told as that | {rate(1, 1)}" in text
    assert f"no price, or zero | {rate(3, 3)}" in text
    assert f"a negative wait | {rate(1, 7)}" in text


@pytest.mark.parametrize(("times", "of"), [(0, 150), (19, 20), (3, 7), (5, 5)])
def test_an_interval_is_that_of_wilson(times: int, of: int) -> None:
    expected = stats.binomtest(times, of).proportion_ci(method="wilson")

    assert wilson(times, of) == pytest.approx((expected.low, expected.high))


def test_a_fault_that_the_job_hides_need_not_be_named() -> None:
    assert Case("data", NOBODY, 0.02, "").right
    assert not Case("data", NOBODY, 0.2, "").right
    assert not Case("data", ANOTHER, 0.02, "").right


def test_of_one_process_group_it_is_right_to_say_that_transfers_are_slow() -> None:
    assert Case("slow_link", UNTOLD, 0.4, "", tells_links=False).right
    assert not Case("slow_link", UNTOLD, 0.4, "", tells_links=True).right
    assert not Case("none", UNTOLD, 0.0, "", tells_links=False).right


@pytest.mark.parametrize(
    ("priced", "right"), [(None, False), ((1.0, 1.0), False), ((1.1, 1.25), True), ((1.37, 1.5), False)]
)
def test_a_price_is_right_near_the_truth(priced: tuple[float, float] | None, right: bool) -> None:
    assert Case("data", "data", 0.2, "", gain=(1.3, 1.3), priced=priced).price_right == right


def test_stages_are_those_of_pipelines_and_two_late_ranks_are_of_two_stages() -> None:
    plain, pipeline = (
        dict(jobs_of(layout, ("late_stage", "two_late"), (1, 1), (8, 3))) for layout in ("ddp", "pp_dp")
    )  # fmt: skip

    assert list(plain) == ["two_late"]
    assert pipeline["late_stage"].faults[0].ranks == (2, 3)
    first, second = pipeline["two_late"].faults[0].ranks
    assert pipeline["two_late"].stage[first] != pipeline["two_late"].stage[second]


def test_the_clocks_of_every_job_are_apart() -> None:
    assert job_of("none", 0, "fsdp").clocks == SKEW
    assert SKEW.offset_ms == 5


def test_the_late_rank_moves_with_the_seed() -> None:
    late = {job_of("gc", seed, "ddp").faults[0].ranks for seed in range(8)}

    assert len(late) == 8


@pytest.mark.parametrize(
    ("name", "outcome"), [("slow_link", UNTOLD), ("none", NOBODY), ("lengths", UNEVEN), ("two_late", "slower_kernels")]
)  # fmt: skip
def test_a_simulated_job_is_judged(name: Name, outcome: str) -> None:
    found = judged(name, job_of(name, 1, "ddp", ranks=4, steps=4))

    assert (found.outcome, found.negative) == (outcome, False)
    assert found.price_right or not found.is_priced


def test_a_group_with_one_rank_of_each_node_has_that_rank_s_part_of_the_network() -> None:
    assert judged("none", job_of("none", 1, "tp_dp", steps=3)).outcome == NOBODY


@pytest.mark.parametrize("late", [0, 1])
def test_the_late_one_of_four_is_named_where_each_group_is_a_pair(late: int) -> None:
    faults = (Fault("data", (late,)),)
    job = Job(ranks=4, seed=7, parallelism="tp_dp", model_parallel=2, layers=2, faults=faults)

    assert judged("data", job).outcome == "data"


@pytest.mark.parametrize("name", ["slow_kernels", "late_stage", "lengths"])
def test_what_slows_a_pipeline_is_named_and_priced(name: Name) -> None:
    found = judged(name, job_of(name, 2, "pp_dp", steps=4))

    assert (found.outcome, found.negative) == (found.expected, False)
    assert found.price_right


def test_what_a_late_rank_of_a_pipeline_costs_is_told_beside_what_the_others_wait(tmp_path: Path) -> None:
    """A pipeline hides a part of a slow loader: the other stages wait for each other anyway."""
    truth = simulate(replace(job_of("data", 3, "pp_dp"), faults=(Fault("data", (3,), 12),))).write(tmp_path)

    found = analyze(tmp_path)

    (straggler,) = found.stragglers
    cost = next(fact.value for fact in found.facts if fact.name == "straggler_cure_share")
    assert isinstance(cost, float)
    assert cost == pytest.approx(1 - 1 / truth.gains["without faults"], rel=0.1)
    assert straggler.share > cost
    assert f"without it the job's step is at best {100 * cost:.1f} % shorter" in waits_anyway(straggler, found)  # type: ignore[operator]
