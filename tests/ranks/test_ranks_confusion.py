"""benchmarks/ranks_confusion.py: what counts as right, and the table."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ranks_confusion import NOBODY, UNTOLD, Case, job_of, judged, report
from simulator import Fault, Job, Kind, simulate

from diagnose.analysis import analyze
from diagnose.report.views.job_words import waits_anyway

pytestmark = pytest.mark.long


def stated(**values: Any) -> argparse.Namespace:
    usual = {"ranks": 4, "steps": 3, "parallelism": "ddp", "seeds": 1, "gloo": False, "no_seq": False}
    return argparse.Namespace(**usual | values)


def test_the_table_counts_the_named_cause_nobody_and_the_innocent() -> None:
    outcomes = [("data", "data"), ("data", "nobody"), ("gc", "another rank"), ("none", "nobody"), ("rotating", "host")]
    found = [Case(kind, outcome, 0.25, "") for kind, outcome in outcomes]  # type: ignore[arg-type]

    text = report(found, stated(), "the command")

    assert "| data | data | 25% | 1 |  |  | 1 |  | 1/2 |" in text
    assert "| gc | gc | 25% |  |  |  |  | 1 | 0/1 |" in text
    assert "| none | nobody | 25% |  |  |  | 1 |  | 1/1 |" in text
    assert "Right rank named: 1 of 3; with the right cause: 1. Slow transfers found, the link not told: 0. Left" in text
    assert "step or more: 1. Another rank accused: 1. Somebody" in text
    assert "named where nobody is at fault: 1 of 2." in text


def test_a_fault_that_the_job_hides_need_not_be_named() -> None:
    assert Case("data", "nobody", 0.02, "").right
    assert not Case("data", "nobody", 0.2, "").right
    assert not Case("data", "another rank", 0.02, "").right


def test_of_one_process_group_it_is_right_to_say_that_transfers_are_slow() -> None:
    assert Case("slow_link", UNTOLD, 0.4, "", tells_links=False).right
    assert not Case("slow_link", UNTOLD, 0.4, "", tells_links=True).right
    assert not Case("none", UNTOLD, 0.0, "", tells_links=False).right


@pytest.mark.parametrize(("kind", "outcome"), [("slow_link", UNTOLD), ("none", NOBODY)])
def test_a_slow_link_of_one_process_group_is_told_as_slow_transfer(kind: Kind, outcome: str) -> None:
    assert judged(kind, job_of(kind, 1, stated()), 1).outcome == outcome


def test_a_group_with_one_rank_of_each_node_has_that_rank_s_part_of_the_network() -> None:
    job = job_of("none", 1, stated(ranks=8, parallelism="tp_dp"))

    assert judged("none", job, 1).outcome == NOBODY


def test_a_simulated_job_is_analysed_and_compared() -> None:
    job = job_of("data", 0, stated())

    case = judged("data", job, 0)

    assert case.note.endswith("true is rank 3: data")
    assert case.slowdown > 0.1


def test_the_late_rank_moves_with_the_seed() -> None:
    late = {job_of("gc", seed, stated(ranks=8)).faults[0].ranks for seed in range(8)}

    assert len(late) == 8


@pytest.mark.parametrize("late", [0, 1])
def test_the_late_one_of_four_is_named_where_each_group_is_a_pair(late: int) -> None:
    faults = (Fault("data", (late,)),)
    job = Job(ranks=4, seed=7, parallelism="tp_dp", model_parallel=2, layers=2, faults=faults)

    assert judged("data", job, 7).outcome == "data"


def test_a_late_last_stage_is_named_though_only_its_data_parallel_peer_is_seen_waiting() -> None:
    """Seven other ranks wait, the peer in an all-reduce, the stages before by design of the pipeline."""
    job = job_of("more_kernels", 12, stated(ranks=8, parallelism="pp_dp"))

    case = judged("more_kernels", job, 12)

    assert case.slowdown > 0.05
    assert case.outcome == "more_work"


def test_what_a_late_stage_costs_is_told_beside_what_the_others_wait(tmp_path: Path) -> None:
    """A pipeline hides most of a slow loader: the other stages wait for each other anyway."""
    truth = simulate(replace(job_of("data", 0, stated(ranks=8, parallelism="pp_dp")), seed=3)).write(tmp_path)

    found = analyze(tmp_path)

    (straggler,) = found.stragglers
    cost = next(fact.value for fact in found.facts if fact.name == "straggler_cure_share")
    slower = sum(truth.slowdown_ms) / sum(truth.step_ms)
    assert cost == pytest.approx(slower, rel=0.1)
    assert straggler.share > 2 * slower
    assert f"without it the job's step is at best {100 * cost:.1f} % shorter" in waits_anyway(straggler, found)  # type: ignore[operator]
