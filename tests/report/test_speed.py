"""The speed is the job's: of steps without the profiler, of its whole batch, and known whether MFU is or not."""

import json
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

MS, GIB = 1_000_000, 1 << 30
BATCH = {"batch": {"shapes": {"input_ids": [8, 128]}, "tokens": 1024}}


def diagnosed(folder: Path, *records: dict[str, Any], gpu: bool = False) -> Diagnosis:
    """A job of one rank for each record, whose profiled steps take 40 ms."""
    for rank, record in enumerate(records):
        trace = Trace(rank=rank) if gpu else Trace(gpu=None, rank=rank)
        for _ in range(5):
            with trace.step():
                if gpu:
                    trace.launch("gemm_kernel", 30_000)
                trace.cpu_op("aten::mm", 40_000)
        trace.write(folder / f"rank{rank}.json")
        if record:
            (folder / f"capture-rank{rank}.json").write_text(json.dumps(record))
    return analyze(folder)


def timed(before: list[float], after: list[float], **record: Any) -> dict[str, Any]:
    steps = {"control_before_ns": [ms * MS for ms in before], "control_after_ns": [ms * MS for ms in after]}
    return {"steps": steps, **record}


def test_the_step_time_is_that_of_steps_without_the_profiler(tmp_path: Path) -> None:
    speed = diagnosed(tmp_path, timed([20, 21, 22], [19, 20, 24])).speed

    assert speed.job is not None
    assert speed.before is not None
    assert speed.after is not None
    assert (speed.job.count, speed.job.step_ns, speed.job.least_ns, speed.job.most_ns) == (
        6,
        20.5 * MS,
        19 * MS,
        24 * MS,
    )
    assert (speed.before.step_ns, speed.after.step_ns, speed.profiled) == (21 * MS, 20 * MS, False)


def test_steps_before_and_after_that_differ_are_no_one_speed(tmp_path: Path) -> None:
    speed = diagnosed(tmp_path, timed([67, 69, 71], [398, 1200, 2218], **BATCH)).speed

    assert speed.job is None
    assert speed.because == "steps before and after the recording differ too much to be one speed"
    assert speed.before is not None
    assert speed.after is not None
    assert (speed.before.step_ns, speed.after.least_ns, speed.after.most_ns) == (69 * MS, 398 * MS, 2218 * MS)
    assert speed.before.tokens_per_s == pytest.approx(1024 / 0.069)


def test_without_such_steps_the_profiled_ones_count_and_are_called_so(tmp_path: Path) -> None:
    speed = diagnosed(tmp_path, {}).speed

    assert speed.job is not None
    assert (speed.job.step_ns, speed.job.count, speed.profiled) == (pytest.approx(40 * MS, rel=0.01), 4, True)
    assert (speed.before, speed.after) == (None, None)


def test_rates_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    ranks = (timed([20, 20], [20, 20], world_size=2, ddp={"bucket_cap_mb": 25}, **BATCH) for _ in range(2))
    speed = diagnosed(tmp_path, *ranks).speed

    assert speed.job is not None
    assert speed.job.tokens_per_s == pytest.approx(2 * 1024 / 0.020)


def test_what_is_not_known_has_a_reason(tmp_path: Path) -> None:
    speed = diagnosed(tmp_path, timed([20, 20], [20, 20])).speed

    assert speed.job is not None
    assert (speed.job.tokens_per_s, speed.job.samples_per_s, speed.peak_bytes) == (None, None, None)
    assert speed.tokens_because == "the tokens of a step are not known"
    assert speed.samples_because
    assert speed.peak_because == "the trace has no GPU activity"


def test_samples_per_second_are_known_where_tokens_are_not(tmp_path: Path) -> None:
    images = {"batch": {"shapes": {"images": [8, 3, 32, 32]}}, "training_arguments": {"gradient_accumulation_steps": 2}}
    speed = diagnosed(tmp_path, timed([20, 20], [20, 20], **images)).speed

    assert speed.job is not None
    assert (speed.job.samples_per_s, speed.job.tokens_per_s) == (pytest.approx(16 / 0.020), None)


def test_the_peak_is_that_of_the_fullest_gpu(tmp_path: Path) -> None:
    peaks = [{"memory": {"max_reserved_bytes": gib * GIB}} for gib in (30, 70)]
    speed = diagnosed(tmp_path, *peaks, gpu=True).speed

    assert (speed.peak_bytes, speed.peak_rank) == (70 * GIB, 1)
    assert speed.memory_bytes is not None
    assert speed.memory_bytes > 70 * GIB


@pytest.mark.parametrize("gpu", [False, True])
def test_a_job_without_a_gpu_says_so_and_which_rules_ask_about_one(gpu: bool, tmp_path: Path) -> None:
    found = diagnosed(tmp_path, {}, gpu=gpu)

    assert found.cpu_only is not gpu
    assert ("low-clock" in {rule.rule for rule in found.not_judged if rule.of_gpu}) is not gpu
