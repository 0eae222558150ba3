"""One process that drives two GPUs: what is of the other one, and what the report says of both."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from analysed import GEMM, causes, facts
from kineto import Trace
from test_mfu import record

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.predict.replay.replay import ELSEWHERE

RULE = "several-gpus-in-one-process"
PRODUCT = [[4096, 4096]] * 2
FLOPS = 2 * 4096**3


@contextmanager
def on_gpu(job: Trace, number: int) -> Iterator[None]:
    """What the block launches runs on that GPU, behind what the job has launched before."""
    before = len(job._events)
    yield
    for row in job._events[before:]:
        if row["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
            row["pid"] = row["args"]["device"] = number


def taking_turns(elsewhere_us: float, wait: bool = False) -> Trace:
    """Layers on GPU 0, then on GPU 1, then the optimizer on GPU 0, as device_map divides a model."""
    job = Trace()
    for _ in range(5):
        with job.step():
            for _ in range(4):
                job.op("aten::mm", PRODUCT, GEMM, 250)
            with on_gpu(job, 1):
                job.op("aten::mm", PRODUCT, GEMM, elsewhere_us)
            if wait:
                job.sync(stream=None)
            with job.optimizer():
                job.op("aten::_fused_adamw_", None, GEMM, 100)
    return job


def diagnosis(folder: Path, job: Trace) -> Diagnosis:
    job.write(folder / "rank0.json")
    return analyze(folder)


@pytest.mark.parametrize("wait", [False, True], ids=["queued", "the host waits"])
def test_a_gpu_that_idles_while_another_works_waits_for_it(wait: bool) -> None:
    found = causes(taking_turns(1000, wait))

    assert found["other-gpu"] == pytest.approx(4 * 1_000_000, rel=0.05)
    assert "queued-on-idle-device" not in found


def test_flops_of_another_gpu_are_none_of_this_one(tmp_path: Path) -> None:
    answer = diagnosis(tmp_path, taking_turns(1000))

    assert answer.mfu is not None
    assert answer.mfu.value == pytest.approx(4 * FLOPS / (989.4e12 * 2.1e-3), rel=0.03)
    assert next(part.points for part in answer.waterfall if part.part == "model-flops") == pytest.approx(
        100 * answer.mfu.value
    )


def test_layers_that_are_divided_over_gpus_need_a_process_for_each(tmp_path: Path) -> None:
    answer = diagnosis(tmp_path, taking_turns(1000))
    found = next(finding for finding in answer.findings if finding.rule == RULE)

    assert (found.severity, answer.next.rule) == ("critical", RULE)
    assert "torchrun --nproc_per_node 2" in found.do
    assert answer.verdict.class_ == "communication-bound"
    assert "is waiting for another GPU of the process" in answer.verdict.because
    assert "unexplained-time" not in {finding.rule for finding in answer.findings}
    assert answer.replay.because == ELSEWHERE


def test_a_gpu_that_is_only_touched_is_no_second_one(tmp_path: Path) -> None:
    answer = diagnosis(tmp_path, taking_turns(10))

    assert RULE not in {finding.rule for finding in answer.findings}
    assert facts(taking_turns(10))["gpus_of_process"].value == 1


def test_tokens_of_the_process_are_shared_by_its_gpus(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "capture-rank0.json").write_text(json.dumps(record()), encoding="utf-8")
    alone, both = diagnosis(one, taking_turns(10)), diagnosis(two, taking_turns(1000))

    assert alone.mfu is not None
    assert both.mfu is not None
    assert alone.mfu.model_flops_per_step is not None
    assert both.mfu.model_flops_per_step == pytest.approx(alone.mfu.model_flops_per_step / 2)


@pytest.mark.parametrize(("elsewhere_us", "gpus"), [(60, 2), (50, 1)])
def test_a_gpu_works_that_does_a_twentieth_of_the_busiest(elsewhere_us: float, gpus: int) -> None:
    assert facts(taking_turns(elsewhere_us))["gpus_of_process"].value == gpus
