"""The score of the diagnosis: what is true of a simulated job, and how an answer to it is judged."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from accuracy.answer import Answer, answered
from accuracy.changed import changed
from accuracy.columns import gpus, real_cpu
from accuracy.corpus import SEVERITIES, Case, corpus, further, tables
from accuracy.floors import below_floors, figures
from accuracy.interval import interval
from accuracy.kept_reports import real_jobs
from accuracy.page import page
from accuracy.peers import Breakdown
from accuracy.realism import distance
from accuracy.replay import report
from accuracy.score import Outcome, Part, Score
from accuracy.shown import NOTHING, jobs, shown, stated
from accuracy.truth import Truth, cures, truth_of
from promises import FITTED
from simulator import Fault, WholeJob, simulate
from simulator.operators import Shape

from diagnose.metrics import units
from diagnose.rule import load_rules

SMALL = WholeJob(shape=Shape(layers=2), device="A100-SXM4-80GB", operator_us=2.0, python_us=1.0)
SAID = Answer("data-bound", (), "data-wait", ("data-wait",), {"data-wait": (1.2, 1.4)}, ("optim",), ())
SLOW_LINK, ROTATES = Fault("slow_link", (0, 1), 4), Fault("rotating", (0,), 1.4)
TRUE = Truth("data-bound", "", {"data": 0.3}, {"data-wait": 1.3, "unfused-optimizer": 1.0, "launch-bound": 1.31})


def outcome(answer: Answer = SAID, truth: Truth = TRUE, rules: tuple[str, ...] = ("data-wait",)) -> Outcome:
    return Outcome(Case("loader", "base", "medium", 1, SMALL, rules), truth, answer)


@pytest.mark.long
def test_what_a_change_buys_is_learnt_by_running_the_job_with_it() -> None:
    waits = changed(SMALL, {"workers": 0, "reads_loss": True, "batch_ms": 10.0})

    truth = truth_of(waits)

    assert truth.class_ == "data-bound"
    assert truth.shares["data"] == pytest.approx(1 - 1 / truth.gains["data-wait"], abs=0.02)


@pytest.mark.long
def test_a_change_that_changes_nothing_buys_nothing() -> None:
    assert "unfused-optimizer" not in truth_of(SMALL).gains
    assert truth_of(replace(SMALL, optimizer="foreach")).gains["unfused-optimizer"] > 1.05


@pytest.mark.long
def test_a_job_is_diagnosed_as_it_was_made() -> None:
    said = answered(changed(SMALL, {"workers": 0, "reads_loss": True, "batch_ms": 10.0}))

    assert (said.class_, said.first) == ("data-bound", "data-wait")


@pytest.mark.long
def test_a_trace_without_its_gpu_events_decides_nothing() -> None:
    assert answered(SMALL, kept=0.0).class_ == "undecided"


@pytest.mark.parametrize(
    ("stated", "is_set"),
    [
        ({"accumulates": "x4"}, ("accumulates", 4)),
        ({"batch_ms": "t0.5"}, ("batch_ms", 10.0)),
        ({"batch_ms": "x0.5"}, ("batch_ms", 1.0)),
        ({"optimizer": "usual"}, ("optimizer", "fused")),
        ({"faults": []}, ("faults", ())),
        ({"faults": "mended"}, ("faults", (ROTATES,))),
        ({"faults": "evened"}, ("faults", (Fault("more_work", (0, 1, 2, 3), 1.1),))),
    ],
)
def test_a_table_says_what_of_a_job_is_changed(stated: dict[str, object], is_set: tuple[str, object]) -> None:
    job = changed(replace(SMALL, ranks=4, optimizer="loop", faults=(SLOW_LINK, ROTATES)), stated, step_ms=20)

    assert getattr(job, is_set[0]) == is_set[1]


def test_every_row_of_the_tables_names_rules_that_there_are() -> None:
    known = {rule.id for rule in load_rules((), units())}
    stated = [*tables()["fault"], *tables()["late"].values()]

    assert {rule for row in stated for rule in row["rules"]} <= known
    assert set(cures()) <= known


def test_the_corpus_has_forty_faults_in_three_severities_pairs_and_healthy_jobs() -> None:
    faults = len(tables()["fault"]) + len(tables()["late"])

    assert faults >= 40
    assert all(len(values) == len(SEVERITIES) for row in tables()["late"].values() for values in [row["sizes"]])
    assert sum(len(row["rules"]) > 1 and " and " in row["name"] for row in tables()["fault"]) >= 5


def test_the_right_answer_misses_nothing() -> None:
    score = Score([outcome()])

    assert outcome().misses == []
    assert (score.class_.share, score.cause_first.share, score.covered.share) == (1, 1, 1)


@pytest.mark.parametrize(
    ("answer", "missed"),
    [
        (replace(SAID, class_="host-bound"), "is data-bound (data 30 %), said host-bound"),
        (replace(SAID, first="unfused-optimizer"), "needs data-wait (named), first is unfused-optimizer"),
        (replace(SAID, promised={"data-wait": (1.4, 1.6)}), "data-wait promised 1.40-1.60x, bought 1.30x"),
        (replace(SAID, negatives=("torch_compile",)), "torch_compile is said not to help, buys 1.31x"),
        (replace(SAID, late=((3, "data"),)), "late is (), said ((3, 'data'),)"),
    ],
)
def test_a_wrong_answer_is_told(answer: Answer, missed: str) -> None:
    assert missed in outcome(answer).misses


def test_near_a_boundary_either_class_is_right_and_elsewhere_one() -> None:
    near = replace(TRUE, near="compute-bound")
    host = replace(SAID, class_="host-bound", between=("host-bound", "data-bound"))

    assert [outcome(replace(SAID, class_="compute-bound"), truth).class_right for truth in (TRUE, near)] == [
        False,
        True,
    ]
    assert [outcome(host, truth).class_right for truth in (TRUE, near)] == [False, True]


def test_a_change_that_buys_nothing_first_in_a_healthy_job_is_a_false_positive() -> None:
    healthy = replace(TRUE, gains={"data-wait": 1.0})
    advised, quiet = (outcome(replace(SAID, first=first), healthy, ()) for first in ("data-wait", ""))

    assert str(Score([advised, quiet]).false_positives) == "1 of 2 (50.0 %)"


def test_below_a_floor_is_told_and_above_is_not() -> None:
    good, bad = Score([outcome()]), Score([outcome(replace(SAID, class_="host-bound"))])

    assert not any(line.startswith("class") for line in below_floors(good))
    assert any(line.startswith("class is 0.000") for line in below_floors(bad))
    assert set(figures(good)) == {line.split()[0] for line in below_floors(bad)} | set(figures(bad))


def test_the_page_has_every_figure_of_the_scored_half() -> None:
    text = page(Score([outcome(), outcome(replace(SAID, class_="host-bound"))]), [], "", "")

    assert "| class right | at least 95 % | 1 of 2 (50.0 %) |" in text
    assert "| data-bound | 1 | 1 |" in text
    assert "| class right | 1 of 2, 50.0 % (1 to 99) |" in text
    assert "A verdict of data-bound for every simulated job would be right in 2 of 2, 100.0 % (16 to 100)." in text


@pytest.mark.parametrize(
    ("right", "of", "low", "high"),
    [(0, 13, 0, 0.2471), (13, 13, 0.7529, 1), (434, 465, 0.9067, 0.9543), (12, 18, 0.4099, 0.8666)],
)
def test_intervals_are_those_of_clopper_and_pearson(right: int, of: int, low: float, high: float) -> None:
    assert interval(right, of) == pytest.approx((low, high), abs=1e-4)


def test_what_ran_for_real_is_read_from_its_reports(tmp_path: Path) -> None:
    (tmp_path / "pairs-2026-01-01.md").write_text(
        "class right: 3 of 4; first advice right: 1 of 4\n; gain inside the range as shown: 1 of 3; "
        f"{FITTED}: 2 of 3,\nmedian width 1.50x; inside from worst to best case: 3 of 3\n| 1.00-1.20x | 2.00-6.00x |"
    )
    (tmp_path / "faults-gpu-2026-01-01.md").write_text(
        "One NVIDIA X1 80GB (80 GiB)\n5 faults ran. The class was right in 2 of 3, the first advice in\n3 of 5; the "
        "achieved gain lay inside the promised range, widened by 5 %, in 1 of 2."
    )
    cpu, (gpu,) = real_cpu(tmp_path), gpus(tmp_path)

    assert (cpu.strict, cpu.first, cpu.inside) == (Part(3, 4), Part(1, 4), Part(2, 3))
    assert cpu.width == pytest.approx(1.5)
    assert (gpu.head, gpu.strict, gpu.first, gpu.inside, gpu.width) == (
        "faults on an X1", Part(2, 3), Part(3, 5), Part(1, 2), None,
    )  # fmt: skip


def test_ranks_of_a_slow_link_may_be_named_and_others_may_not() -> None:
    case = Case("slow link", "base", "medium", 1, SMALL, may_be_late=((0, "link"), (1, "link")))
    named = [(), ((1, "link"),), ((2, "link"),), ((1, "host"),)]

    right = [Outcome(case, TRUE, replace(SAID, late=late)).late_right for late in named]

    assert right == [True, True, False, False]


@pytest.mark.parametrize(
    ("idle", "communicates", "thresholds", "utilisation"),
    [
        (0.20, 0.30, ("data-bound", "host-bound"), ("data-bound", "host-bound")),
        (0.12, 0.30, ("communication-bound",), ("data-bound", "host-bound")),
        (0.05, 0.05, ("compute-bound", "memory-bound"), ("communication-bound", "compute-bound", "memory-bound")),
    ],
)
def test_parts_of_the_time_are_read_by_published_thresholds(
    idle: float, communicates: float, thresholds: tuple[str, ...], utilisation: tuple[str, ...]
) -> None:
    parts = Breakdown(idle, communicates)

    assert (parts.by_thresholds, parts.by_utilisation) == (thresholds, utilisation)


def test_an_iteration_time_is_as_wrong_as_its_prediction() -> None:
    text = report([outcome(), outcome(replace(SAID, promised={"data-wait": (1.0, 1.21)}))], {})

    middle = (abs(1.3 / (1.2 * 1.4) ** 0.5 - 1) + (1.3 / 1.1 - 1)) / 2
    assert f"| data-wait | 2 | {100 * middle:.2f} % | {100 * (1.3 / 1.21 - 1) / 2:.2f} % |" in text


def test_distributions_are_as_far_apart_as_their_shares() -> None:
    assert distance(np.arange(100.0), np.arange(100.0) + 25) == pytest.approx(0.25)


@pytest.mark.long
def test_a_small_part_of_the_corpus_reaches_what_it_does() -> None:
    names = ("one loader worker", "eager attention")
    chosen = [case for case in corpus(range(1, 2), ("severe",)) if case.name in names]
    outcomes = [Outcome(case, truth_of(case.job), answered(case.job)) for case in chosen]

    assert [one.answer.first for one in outcomes] == ["data-wait", "unfused-attention"]
    assert all(one.class_right for one in outcomes)


def test_jobs_that_ran_for_real_are_those_of_the_newest_report(tmp_path: Path) -> None:
    for day, said in (("2026-01-01", "old"), ("2026-02-01", "first advice right: 1 of 1\n\n| job |\n")):
        (tmp_path / f"pairs-{day}.md").write_text(f"# First advice\n\n{said}")

    link = "[pairs-2026-02-01.md](../benchmarks/reports/pairs-2026-02-01.md)"
    assert real_jobs(tmp_path) == f"{link}, first advice right: 1 of 1\n\n| job |"
    assert real_jobs(tmp_path / "none") == ""


def test_faults_of_further_kinds_run_on_an_amd_gpu_and_in_few_steps() -> None:
    cases = list(further(range(1, 2), ("severe",)))
    amd = next(case for case in cases if case.name == "eager attention, an AMD GPU")
    ((_, text),) = simulate(amd.job).traces()
    names = {event["name"] for event in json.loads(text)["traceEvents"]}

    assert {case.name.rpartition(", ")[2] for case in cases} == {"an AMD GPU", "inference", "two steps captured"}
    assert not any("TF32" in case.name for case in cases if case.name.endswith("AMD GPU"))
    assert "hipExtModuleLaunchKernel" in names
    assert not any(name.startswith(("cuda", "nvjet")) for name in names)
    assert answered(amd.job).first == "unfused-attention"


def test_the_page_says_of_each_kind_by_which_jobs_it_is_shown() -> None:
    rows = [line for line in shown().splitlines() if line.startswith("| ")]

    assert len(rows) == len(stated()) + 2
    assert "| memory of another NUMA node | " + NOTHING in shown()
    assert "run on a GPU: graph breaks; recompilations" in shown()
    assert all(jobs().values())
