"""Both sides of each threshold of a ladder of runs, in numbers."""

import numpy as np
import pytest

from diagnose.commands.scaling.judge import report_of
from diagnose.commands.scaling.question import ScalingQuestion
from diagnose.commands.scaling.runs_fit import fit_of, kind_of
from diagnose.predict.growth import fitted
from diagnose.predict.job_run import JobRun, JobRuns, measured_rate


def run(gpus: int, rate: float, tokens_per_gpu: float = 1000.0) -> JobRun:
    return JobRun("runs.csv", gpus, max(gpus // 4, 1), tokens_per_step=tokens_per_gpu * gpus, tokens_per_s=rate)


@pytest.mark.parametrize(("more", "kind"), [(1.018, "weak"), (1.022, "mixed")])
def test_tokens_of_a_gpu_are_the_same_within_two_per_cent(more: float, kind: str) -> None:
    assert kind_of([run(1, 100.0), run(8, 700.0, 1000 * more)]) == kind


@pytest.mark.parametrize(("faster", "told"), [(1.12, True), (1.08, False)])
def test_runs_are_not_of_one_job_of_which_a_gpu_gets_a_tenth_faster(faster: float, told: bool) -> None:
    assert ("do not do the same work" in fit_of([run(1, 100.0), run(8, 800 * faster)]).because) is told


def test_a_rate_of_one_run_is_open_by_two_deviations_of_runs() -> None:
    low, likely, high = measured_rate([run(8, 1000.0)])

    assert (low, likely, high) == pytest.approx((1000 / 1.032, 1000, 1032))


def test_a_wall_is_looked_for_up_to_sixty_four_times_the_largest_size() -> None:
    fit = fit_of([run(1, 100.0), run(8, 780.0), run(16, 1500.0)])

    assert fit.wall().horizon == 64 * 16


def test_eight_times_the_largest_size_is_looked_at() -> None:
    ladder = JobRuns("", [run(1, 100.0), run(8, 780.0)])
    sizes = report_of([ladder], [], [], ScalingQuestion()).jobs[0].sizes

    assert max(size.gpus for size in sizes) == 64


@pytest.mark.parametrize(("apart", "noted"), [(1.11, 1), (1.09, 0)])
def test_runs_of_one_size_that_differ_by_a_tenth_are_noted(apart: float, noted: int) -> None:
    ladder = JobRuns("", [run(1, 130.0), run(8, 1000.0), run(8, 1000.0 * apart)])
    notes = report_of([ladder], [], [], ScalingQuestion()).jobs[0].notes

    assert sum("are they of one job" in note for note in notes) == noted


def test_what_lies_within_two_deviations_of_the_best_growth_is_kept() -> None:
    """Of three runs that take as long: at eight GPUs what grows is 8 % at most."""
    gpus = np.array([1.0, 2.0, 4.0])
    growth = fitted(gpus, np.ones(3), np.ones(3), np.full(3, 0.016))
    assert growth is not None

    low, _, high = growth.step_s(8.0, 1.0)
    assert (low, high) == pytest.approx((1.0, 1.0835), abs=0.003)
