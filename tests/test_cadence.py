"""What checkpoints take of the run, as profiled and as without the profiler."""

import json
from pathlib import Path

import pytest
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis


def saving(folder: Path, record: dict[str, object]) -> Diagnosis:
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
    return analyze(folder)


@pytest.mark.parametrize(("record", "most"), [({"overhead_factor": 2.0}, 30 / 70), ({}, 30 / 110)])
def test_steps_that_the_profiler_slows_hide_what_checkpoints_take(
    tmp_path: Path, record: dict[str, object], most: float
) -> None:
    found = saving(tmp_path, record)
    share = {fact.name: fact.value for fact in found.facts}
    finding = next(f for f in found.findings if f.rule == "checkpoint-cadence")

    assert share["checkpoint_run_share"] == pytest.approx(0.2, abs=0.001)
    assert share["most_checkpoint_run_share"] == pytest.approx(most, abs=0.001)
    assert finding.predicted_speedup == pytest.approx((1 / (1 - 0.6 * 0.2), 1 / (1 - 0.75 * most)), rel=0.01)
