"""What a trace without a GPU knows of a change: the work of its operators, what grouping saves, what is reduced."""

import json
from pathlib import Path
from typing import Any

import pytest
from analysed import facts
from kineto import Trace

from diagnose.analysis import analyze

LARGE, SMALL = [[1024, 1024]] * 2, [[2, 2]] * 2


def calls(*each: tuple[str, Any, float]) -> Trace:
    """Three steps of operators with their sizes and microseconds."""
    job = Trace(gpu=None)
    for _ in range(3):
        with job.step():
            for name, dims, us in each:
                job.cpu_op(name, us, dims, "float")
            with job.optimizer():
                job.cpu_op("aten::_fused_adamw_", 5)
    return job


def value(job: Trace, name: str) -> float:
    found = facts(job)[name].value
    assert isinstance(found, float)
    return found


def test_what_a_small_call_takes_beyond_its_tensors_is_no_work() -> None:
    job = calls(("aten::mm", LARGE, 900), ("aten::add", SMALL, 50), ("aten::add", LARGE, 50))
    found = value(job, "operator_work_share")

    assert found == pytest.approx((900 + 50 + 0) / (900 + 50 + 50 + 5), abs=0.02)


def test_pairs_of_tokens_are_compared_by_attention_and_batched_products() -> None:
    job = calls(
        ("aten::mm", LARGE, 600), ("aten::bmm", [[8, 64, 64]] * 2, 200), ("aten::_softmax", [[8, 64, 64]], 100),
        ("aten::_log_softmax", LARGE, 100),
    )  # fmt: skip

    assert value(job, "pairwise_operator_share") == pytest.approx(0.3, abs=0.01)


def grouped(folder: Path, batches_per_pass: int | None) -> dict[str, float]:
    """What grouping saves, of 16 batches of 8 samples that were seen."""
    lengths = [[4 * number, 8] for number in range(1, 17)]
    padding = {
        "batches": 16, "tokens": 16 * 8 * 60, "padded_tokens": 3000, "beyond_longest_tokens": 0, "least_share": 0.1,
        "most_share": 0.6, "share_error": 0.01, "least_length": 40, "most_length": 64, "most_beyond_longest": 0,
        "samples_by_tokens": lengths,
    }  # fmt: skip
    batch = {"shapes": {}, "tokens": None, "batches_seen": 4, "padding_share": 0.4, "padding": padding}
    loading = {"passes": {"batches": batches_per_pass, "seen": 1}} if batches_per_pass else {}
    calls(("aten::mm", LARGE, 900)).write(folder / "rank0.json.gz")
    (folder / "capture-rank0.json").write_text(json.dumps({"batch": batch, "loading": loading}))
    wanted = ("least_padding_cured_share", "most_padding_cured_share", "grouping_cured_share")
    return {fact.name: fact.value for fact in analyze(folder).facts if fact.name in wanted}  # type: ignore[misc]


def test_samples_of_a_large_dataset_are_sorted_in_larger_groups(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "large").mkdir()
    seen, large = grouped(tmp_path / "seen", None), grouped(tmp_path / "large", 4000)

    assert seen["grouping_cured_share"] < 0.8 * large["grouping_cured_share"]
    assert large["grouping_cured_share"] <= large["most_padding_cured_share"] <= 0.4


def reducing(reduced: int) -> Trace:
    """Three updates of four micro-batches on gloo, `reduced` of which reduce their gradients."""
    job = Trace(gpu=None, world=2)
    for _ in range(3):
        with job.step():
            for number in range(4):
                with job.annotation("DistributedDataParallel.forward", 100):
                    pass
                job.cpu_op("aten::mm", 200, LARGE, "float")
                if number >= 4 - reduced:
                    job.cpu_op("torch::distributed::reducer::mul_out", 5, SMALL, "float")
            with job.optimizer():
                job.cpu_op("aten::_fused_adamw_", 5)
    return job


@pytest.mark.parametrize("reduced", [4, 1])
def test_reductions_are_counted_without_a_gpu(reduced: int) -> None:
    assert facts(reducing(reduced))["reduced_micro_steps_per_update"].value == reduced


def test_python_of_each_micro_batch_comes_oftener_than_once_a_step(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    for _ in range(3):
        with job.step():
            for _ in range(4):
                job.host(100)
                job.cpu_op("aten::mm", 200, LARGE, "float")
            job.host(900)
            with job.optimizer():
                job.cpu_op("aten::_fused_adamw_", 5)
    job.write(tmp_path / "rank0.json.gz")
    arguments = {"training_arguments": {"gradient_accumulation_steps": 4}}
    (tmp_path / "capture-rank0.json").write_text(json.dumps(arguments))
    known = {fact.name: fact.value for fact in analyze(tmp_path).facts}

    assert known["python_once_a_step_share"] == pytest.approx((900 - 100) / (900 + 4 * 100), abs=0.01)
