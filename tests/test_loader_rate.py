"""The rate of the loader, as a capture of a job that trains shows it."""

from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis.advice import FactReport


def facts(folder: Path, workers: int, waiting_us: int, **batch: Any) -> dict[str, FactReport]:
    """Of steps that compute for 2 ms on four samples, beside the wait for the next batch."""
    job = Trace()
    for _ in range(5):
        with job.step():
            job.loader(us=waiting_us, workers=workers)
            job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 2000)
    loading = {"workers": workers, "fetches": 4, "wait_ns": [20_000_000] * 4, "unmeasured": "not asked"}
    record = {
        "training_arguments": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1},
        "loading": loading,
        "batch": {"shapes": {}, "batches_seen": 4, **batch},
    }
    return {fact.name: fact for fact in analysed(folder, job, record).facts}


def test_without_workers_it_is_samples_over_the_time_of_a_fetch(tmp_path: Path) -> None:
    found = facts(tmp_path, 0, 100, bytes=4000)

    assert found["loader_samples_per_s"].value == pytest.approx(4 / 0.020)
    assert found["worker_samples_per_s"].value == pytest.approx(4 / 0.020)
    assert found["loader_bytes_per_s"].value == pytest.approx(1000 * 4 / 0.020)


def test_workers_that_are_waited_for_set_the_pace_together(tmp_path: Path) -> None:
    found = facts(tmp_path, 2, 20_000)

    assert found["loader_samples_per_s"].value == pytest.approx(4 / 0.020, rel=0.01)
    assert found["worker_samples_per_s"].value == pytest.approx(2 / 0.020, rel=0.01)
    assert found["loader_bytes_per_s"].value is None


def test_workers_that_keep_up_do_not_show_how_fast_they_are(tmp_path: Path) -> None:
    fact = facts(tmp_path, 2, 10)["loader_samples_per_s"]

    assert fact.value is None
    assert fact.capture_next == "measure it with diagnose data"
