"""Single slow samples and short bursts: which are named, what they cost, whether they recur; and no false alarms."""

import csv
import gzip
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from public_tables import public_table
from rich.console import Console

from diagnose.arrays import Floats
from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.judge import judged
from diagnose.commands.series.stalls_text import print_stalls
from diagnose.report.text.page import Page
from diagnose.series import Series, Track, read_series


def steady(steps: int = 2000, seed: int = 0, noise: float = 0.03) -> Floats:
    """Steps of 0.5 s with some noise."""
    return 0.5 * np.exp(noise * np.random.default_rng(seed).normal(size=steps))


def report(*ranks: Floats) -> SeriesReport:
    tracks = [Track(at if len(ranks) > 1 else None, "", np.arange(1, len(s) + 1), s) for at, s in enumerate(ranks)]
    return judged(Series("csv", (), "", tuple(tracks)))


def steps_of(found: SeriesReport) -> list[int]:
    return [one.step for one in found.stalls]


def test_a_single_stall_is_named_with_its_cost() -> None:
    seconds = steady()
    seconds[700] += 30

    (stall,) = report(seconds).stalls

    assert (stall.step, stall.last_step, stall.recurs) == (701, 701, None)
    assert stall.cost_s == pytest.approx(30, rel=0.01)
    assert stall.time_s == pytest.approx(30.5, rel=0.01)
    assert stall.run_share == pytest.approx(30 / seconds.sum(), rel=0.01)


def test_what_costs_little_of_the_run_is_not_named() -> None:
    seconds = steady()
    seconds[700] += 0.001 * seconds.sum()

    assert report(seconds).stalls == ()


def test_a_burst_of_a_third_is_one_stall() -> None:
    seconds = steady()
    seconds[700:716] *= 1.3

    (stall,) = report(seconds).stalls

    assert stall.step == pytest.approx(701, abs=2)
    assert stall.last_step == pytest.approx(716, abs=2)
    assert stall.cost_s == pytest.approx(16 * 0.15, rel=0.15)


def test_a_stall_beside_a_change_of_level_is_measured_against_its_own_level() -> None:
    seconds = steady()
    seconds[1000:] *= 1.5
    seconds[1010] += 30

    found = report(seconds)

    assert [change.since_step for change in found.changes] == [pytest.approx(1001, abs=2)]
    assert [round(one.cost_s) for one in found.stalls] == [30]


def test_three_stalls_with_a_period_recur() -> None:
    seconds = steady(3500)
    seconds[[1000, 2000, 3000]] += (50, 5, 5)

    found = report(seconds)

    assert steps_of(found) == [1001, 2001, 3001]
    assert [one.recurs.every_steps if one.recurs else 0 for one in found.stalls] == [1000] * 3
    assert found.look[0].command.startswith("diagnose run --at-step 1000 ")


def test_a_cadence_of_many_slow_steps_is_one_stall_beside_its_period() -> None:
    seconds = steady()
    seconds[49::50] += 2

    found = report(seconds)

    assert [(one.step, one.count) for one in found.stalls] == [(50, 40)]
    assert found.stalls[0].recurs is not None
    assert found.stalls[0].recurs.every_steps == found.periodic[0].every_steps == 50
    assert found.stalls[0].cost_s == pytest.approx(80, rel=0.02)


def test_stalls_at_no_period_do_not_recur() -> None:
    seconds = steady()
    seconds[[150, 610, 1700]] += 20

    found = report(seconds)

    assert steps_of(found) == [151, 611, 1701]
    assert all(one.recurs is None for one in found.stalls)
    assert "should it come again" in found.look[0].why


def test_a_stall_of_all_ranks_is_one_and_that_of_one_rank_names_it() -> None:
    ranks = [steady(seed=seed) for seed in range(4)]
    for seconds in ranks:
        seconds[300] += 20
    ranks[2][900] += 20

    found = report(*ranks)

    assert [(one.step, one.ranks) for one in found.stalls] == [(301, (0, 1, 2, 3)), (901, (2,))]


NOISES = {
    "heavy tails": lambda seeded, n: 0.05 * np.minimum(seeded.pareto(2.5, n), 1e6),
    "logarithms of heavy tails": lambda seeded, n: np.expm1(0.05 * seeded.standard_t(3, n)),
    "sequences of any length": lambda seeded, n: seeded.lognormal(0, 0.5, n),
    "two lengths of batches": lambda seeded, n: (
        np.where(seeded.random(n) < 0.1, 1.5, 0.0) + 0.02 * seeded.normal(size=n)
    ),
    "a slow wander": lambda seeded, n: 0.1 * np.sin(np.arange(n) / 40) + 0.02 * seeded.normal(size=n),
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("steps", [60, 400, 2000])
def test_noise_is_no_stall(noise: object, steps: int) -> None:
    for seed in range(4):
        seconds = 0.5 * (1 + np.maximum(noise(np.random.default_rng(seed), steps), -0.9))  # type: ignore[operator]
        assert report(seconds).stalls == (), seed


def test_a_series_without_any_noise() -> None:
    seconds = np.full(300, 0.5)
    assert report(seconds).stalls == ()

    seconds[100] = 5.0
    assert steps_of(report(seconds)) == [101]


def written(folder: Path, rows: Sequence[str]) -> Path:
    (folder / "steps.csv").write_text("\n".join(rows) + "\n")
    return folder / "steps.csv"


def runs_in_one_file(folder: Path) -> SeriesReport:
    """Two systems of 64 samples a step; all runs of the first stall at its step 300, those of the other do not."""
    rows = ["system,run,accelerators,global_batch_size,step,step_time_s"]
    for system, run in [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]:
        seconds = steady(600, seed=run)
        seconds[299] += 20 * (system == "a")
        rows += [f"{system},{run},128,64,{64 * step}.0,{s:.5f}" for step, s in enumerate(seconds, 1)]
        rows.insert(len(rows) - 100, f"{system},{run},128,64,64,0.6")  # a summary, under a count of its own
    return judged(read_series(written(folder, rows)))


def test_runs_in_one_file_are_told_apart_and_compared_within_their_job(tmp_path: Path) -> None:
    found = runs_in_one_file(tmp_path)

    assert [(run.name, run.job, run.gpus) for run in found.runs] == [
        ("a 0", "a", 128),
        ("a 1", "a", 128),
        ("a 2", "a", 128),
        ("b 0", "b", 128),
        ("b 1", "b", 128),
    ]
    assert [(one.run, one.step, one.optimizer_step) for one in found.stalls] == [
        ("a 0", 300 * 64, 300),
        ("a 1", 300 * 64, 300),
        ("a 2", 300 * 64, 300),
    ]
    recurs = found.stalls[0].recurs
    assert recurs is not None
    assert (recurs.runs, recurs.of_runs) == (3, 3)
    assert found.stalls[0].gpu_hours == pytest.approx(20 * 128 / 3600, rel=0.01)


def test_a_count_of_steps_in_strides_of_the_batch_size_stays_one_of_steps(tmp_path: Path) -> None:
    """From 31 on, one row for 32 steps, and 32 is the batch size too: no row ends a whole number of batches."""
    seconds = steady(200)
    seconds[100] += 3
    rows = [f"{32 * at + 31},{s:.5f},32" for at, s in enumerate(seconds)]

    (stall,) = judged(read_series(written(tmp_path, ["step,step_time_s,global_batch_size", *rows]))).stalls

    assert (stall.step, stall.optimizer_step) == (32 * 100 + 31, 32 * 101)
    assert stall.cost_s == pytest.approx(32 * 3, rel=0.02)


def test_the_stalls_of_published_runs_are_named_and_nothing_else_is() -> None:
    """Ten runs of one system stall at its steps 1001, 2001 and 3001; 47 runs of eight others are steady."""
    path = public_table("mlperf_v5.1_step_times.csv.gz")
    with gzip.open(path, "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["system"] == "hpf_n16" and row["step"].endswith(".0")]
    at = {1001: 0.0, 2001: 0.0, 3001: 0.0}
    for row in rows:
        step = int(float(row["step"])) // 64
        at |= {step: at[step] + float(row["step_time_s"]) - 0.485} if step in at else {}

    found = judged(read_series(path))

    assert {one.job.split()[0] for one in found.stalls} == {"hpf_n16"}
    assert Counter(one.optimizer_step for one in found.stalls) == {1001: 10, 2001: 10, 3001: 10}
    for step, cost in at.items():
        assert sum(one.cost_s for one in found.stalls if one.optimizer_step == step) == pytest.approx(cost, rel=0.1)
    assert {one.recurs and (one.recurs.every_optimizer_steps, one.recurs.runs) for one in found.stalls} == {(1000, 10)}
    assert found.changes == ()


def test_what_columns_tell_beside_the_step_is_near(tmp_path: Path) -> None:
    seconds = steady(400)
    seconds[[100, 200]] += 10
    rows = [f"{at + 1},{s:.5f},{at / 200:.3f},{'' if at + 1 != 101 else 2.5}" for at, s in enumerate(seconds)]

    found = judged(read_series(written(tmp_path, ["step,step_time_s,epoch,eval_loss", *rows])))

    assert [(one.step, [near.kind for near in one.near]) for one in found.stalls] == [
        (101, ["evaluation"]),
        (201, ["epoch"]),
    ]


def test_a_stall_that_one_run_does_not_make_out_by_itself_is_told_by_the_others(tmp_path: Path) -> None:
    """Three runs stall at step 300 by 5 s; the steps of the last vary so much that it could be chance there."""
    rows = ["run,step,step_time_s"]
    for run, noise in enumerate((0.03, 0.03, 0.35)):
        seconds = steady(400, seed=run, noise=noise)
        seconds[299] += 5
        rows += [f"{run},{step},{s:.5f}" for step, s in enumerate(seconds, 1)]
    alone = [rows[0], *rows[801:]]

    found = judged(read_series(written(tmp_path, rows)))

    assert [(one.run, one.step) for one in found.stalls] == [("0", 300), ("1", 300), ("2", 300)]
    assert judged(read_series(written(tmp_path, alone))).stalls == ()


def test_stalls_of_one_period_are_told_together() -> None:
    seconds = steady(3500)
    seconds[[1000, 2000, 3000]] += (50, 5, 5)
    out = Console(file=io.StringIO(), width=100)

    print_stalls(Page(out), report(seconds))

    said = out.file.getvalue()
    assert said.count("stall  ") == 1
    assert "at        steps 1,001, 2,001, 3,001: 5.0 s to 50.0 s each" in said
    assert "recurs    every 1,000 steps, 3 times" in said
