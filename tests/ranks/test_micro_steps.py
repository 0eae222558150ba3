"""Gradients that are reduced in each micro-step: counted on every wrapper, told in the words of what reduces."""

from pathlib import Path

import pytest
from distributed_traces import DDP, FSDP, Trace, gathers, passes, reduced, train
from needs import needs
from two_ranks import diagnosed, fact, of_communication

from diagnose.analysis import analyze
from diagnose.facts import Fact
from diagnose.patch.job_framework import framework_of
from diagnose.probes.frameworks import ACCELERATE, BARE_LOOP, DEEPSPEED, TRAINER

MIB = 1 << 20
WORDS = {
    "ddp": "model.no_sync()",
    "ddp_views": "model.no_sync()",
    "fsdp": "model.no_sync()",
    "fully_shard": "model.set_requires_gradient_sync(False)",
    "hybrid_fully_shard": "model.set_requires_all_reduce(False)",
    "accelerate": "accelerator.accumulate(model)",
}


@pytest.mark.capture
@pytest.mark.slow
@pytest.mark.parametrize("kind", WORDS)
def test_a_real_job_that_reduces_in_each_of_four_micro_steps(kind: str, tmp_path: Path) -> None:
    needs("torch", *(["accelerate"] if kind == "accelerate" else []))
    found = diagnosed(tmp_path, "micro_steps.py", kind)

    assert fact(found, "micro_steps_per_update") == 4
    assert fact(found, "reduced_micro_steps_per_update") == 4
    if isinstance(share := fact(found, "gradient_reduction_share"), float) and share > 0.02:
        first = of_communication(found)[0]
        assert first.rule == "reduced-micro-steps"
        assert WORDS[kind] in first.do


@pytest.mark.capture
@pytest.mark.slow
@pytest.mark.parametrize("kind", WORDS)
def test_the_same_job_with_one_reduction(kind: str, tmp_path: Path) -> None:
    needs("torch", *(["accelerate"] if kind == "accelerate" else []))
    found = diagnosed(tmp_path, "micro_steps.py", kind, "--fixed")

    assert fact(found, "micro_steps_per_update") == 4
    assert fact(found, "reduced_micro_steps_per_update") == 1
    assert [each.rule for each in of_communication(found) if each.rule == "reduced-micro-steps"] == []


@pytest.mark.parametrize(
    ("loop", "reducer", "wrapper", "words"),
    [
        (BARE_LOOP, BARE_LOOP, "none", "model.no_sync()"),
        (BARE_LOOP, BARE_LOOP, "fully_shard", "model.set_requires_gradient_sync(False)"),
        (BARE_LOOP, BARE_LOOP, "hybrid_fully_shard", "model.set_requires_all_reduce(False)"),
        (ACCELERATE, ACCELERATE, "fully_shard", "accelerator.accumulate(model)"),
        (TRAINER, TRAINER, "none", "gradient_accumulation_steps, and no sync_each_batch"),
        (TRAINER, DEEPSPEED, "none", "zero_optimization.stage 1 in the DeepSpeed config"),
        (DEEPSPEED, DEEPSPEED, "none", "zero_optimization.stage 1 in the DeepSpeed config"),
    ],
)
def test_the_call_is_that_of_what_reduces(loop: object, reducer: object, wrapper: str, words: str) -> None:
    told = {"training_loop": loop.name, "reducer_made_by": reducer.name, "sharded_by": wrapper}  # type: ignore[attr-defined]

    said = framework_of({name: Fact(name, value, "text") for name, value in told.items()}).said("gradient_sync")

    assert words in said


@pytest.mark.parametrize(("wrapper", "leaves_alone"), [(DDP, True), (FSDP, False)])
def test_buckets_of_ddp_are_left_alone_where_there_are_some(wrapper: str, leaves_alone: bool, tmp_path: Path) -> None:
    def step(job: Trace) -> None:
        passes(job, wrapper)
        reduced(job, 64 * MIB, 300, wait=True)

    for job in train(step if wrapper == DDP else gathers(400)):
        job.write(tmp_path / f"rank{job.rank}.json")

    found = analyze(tmp_path)

    assert any("bucket_cap_mb" in each.what for each in found.not_advised) is leaves_alone


def test_forward_passes_without_gradients_are_no_micro_steps(tmp_path: Path) -> None:
    def step(job: Trace) -> None:
        for _ in range(3):
            with job.annotation(DDP, 5):
                job.cpu_op("aten::mm", 50)
            job.cpu_op("aten::mean", 50)
        passes(job)
        reduced(job, 64 * MIB, 300, wait=True)

    for job in train(step):
        job.write(tmp_path / f"rank{job.rank}.json")

    assert fact(analyze(tmp_path), "micro_steps_per_update") == 1
