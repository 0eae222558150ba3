"""What checkpoints take of the run, as profiled and as without the profiler."""

import json
from pathlib import Path

import pytest
from kineto import Trace

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis, Finding
from diagnose.formulas.checkpoints import best_interval_s, lost_share, published_mtbf_s


def saving(folder: Path, record: dict[str, object], **stated: float) -> Diagnosis:
    """Steps of 40 ms, of which every other one saves for 20 ms more."""
    job = Trace(gpu=None)
    for number in range(5):
        with job.step():
            job.cpu_op("aten::mm", 40_000)
            if number % 2:
                with job.annotation("diagnose.save", us=20_000):
                    pass
    job.write(folder / "rank0.json.gz")
    saves = {"training_arguments": {"save_strategy": "steps", "save_steps": 2}}
    (folder / "capture-rank0.json").write_text(json.dumps(saves | record))
    return analyze(folder, options=Options(**stated))  # type: ignore[arg-type]


@pytest.mark.parametrize(("record", "most"), [({"overhead_factor": 2.0}, 30 / 70), ({}, 30 / 110)])
def test_steps_that_the_profiler_slows_hide_what_checkpoints_take(
    tmp_path: Path, record: dict[str, object], most: float
) -> None:
    found = saving(tmp_path, record)
    share = {fact.name: fact.value for fact in found.facts}
    finding = next(f for f in found.findings if f.rule == "checkpoint-cadence")

    assert share["checkpoint_run_share"] == pytest.approx(0.2, abs=0.001)
    assert share["most_checkpoint_run_share"] == pytest.approx(most, abs=0.001)
    assert finding.predicted_speedup == pytest.approx((1 / (1 - 16 / 96), 1 / (1 - most)), rel=0.01)


def facts_of(found: Diagnosis) -> dict[str, object]:
    return {fact.name: fact.value for fact in found.facts}


def cadence_of(found: Diagnosis) -> Finding:
    return next(finding for finding in found.findings if finding.rule == "checkpoint-cadence")


def test_the_best_interval_is_that_of_the_cost_and_the_failures() -> None:
    cost_s, mtbf_s = 30.0, 10_000.0
    best = best_interval_s(cost_s, mtbf_s)
    assert best == pytest.approx((2 * 30 * 10_000) ** 0.5)
    assert lost_share(best, cost_s, mtbf_s) < min(lost_share(factor * best, cost_s, mtbf_s) for factor in (0.5, 2.0))


def test_published_jobs_fail_in_proportion_to_their_gpus() -> None:
    assert published_mtbf_s(1024)[0] == pytest.approx(7.9 * 3600, rel=0.001)
    assert published_mtbf_s(16_384)[1] == pytest.approx(54 * 24 * 3600 / 419, rel=0.001)
    assert published_mtbf_s(1) == published_mtbf_s(8)


def test_a_stated_time_between_failures_gives_the_interval(tmp_path: Path) -> None:
    found = saving(tmp_path, {}, mtbf_hours=1.0)
    steps = round((2 * 0.02 * 3600) ** 0.5 / 0.04, -1)  # 12 s of steps of 40 ms

    assert facts_of(found)["best_save_interval_steps"] == steps == 300
    patch = cadence_of(found).patch
    assert patch is not None
    assert patch.set == {"save_steps": 300}
    assert "with 60.0 min between failures, as stated" in cadence_of(found).do
    assert facts_of(found)["job_mtbf_ns"] == facts_of(found)["most_job_mtbf_ns"] == 3600e9


def test_published_rates_stand_in_for_it_with_their_range(tmp_path: Path) -> None:
    found = saving(tmp_path, {})
    fewest_s, most_s = published_mtbf_s(1)

    assert facts_of(found)["best_save_interval_steps"] == float(f"{best_interval_s(0.02, fewest_s) / 0.04:.1e}")
    assert facts_of(found)["most_best_save_interval_steps"] == float(f"{best_interval_s(0.02, most_s) / 0.04:.1e}")
    assert "fail every 42.1 days to 264.1 days" in cadence_of(found).do


def test_a_job_that_fails_often_is_not_told_to_save_less(tmp_path: Path) -> None:
    found = saving(tmp_path, {}, mtbf_hours=0.00005)

    assert cadence_of(found).patch is None
    assert cadence_of(found).action == "write checkpoints during the next steps"
    assert (cadence_of(found).predicted_speedup or (0, 0))[0] == 1


def test_a_run_that_is_shorter_than_the_interval_saves_at_its_end(tmp_path: Path) -> None:
    ends = {"training_arguments": {"save_strategy": "steps", "save_steps": 2, "max_steps": 40}}
    found = saving(tmp_path, ends, mtbf_hours=1.0)

    patch = cadence_of(found).patch
    assert patch is not None
    assert patch.set == {"save_steps": 40}
    assert "the run ends after 40 steps" in cadence_of(found).do


def test_a_run_of_so_many_epochs_has_no_such_end(tmp_path: Path) -> None:
    epochs = {"training_arguments": {"save_strategy": "steps", "save_steps": 2, "max_steps": -1}}
    found = saving(tmp_path, epochs, mtbf_hours=1.0)

    assert cadence_of(found).patch.set == {"save_steps": 300}  # type: ignore[union-attr]
