"""Memory snapshots of evaluations that keep their outputs on the GPU, told from training and from generation."""

from collections.abc import Callable
from pathlib import Path

import pytest
from judged_snapshots import (
    BY_LOOP,
    BY_TRAINER,
    CALL,
    HIDDEN,
    LAYER,
    LLAMA,
    LOGITS,
    PACKAGES,
    UNNAMED,
    USERS,
    judge,
    names,
    told,
)
from torch_allocator import (
    MIB,
    PARAMETERS,
    TORCH,
    Allocator,
    Frame,
    frame,
    healthy,
    recorded,
)


def evaluation(loop: list[Frame], keeps: bool = True, grows: bool = False, batches: int = 12) -> Allocator:
    """Batches of a model with four layers, of which the logits stay; or each batch's are copied behind those before."""
    allocator = Allocator(limit=4000 * MIB)
    for _ in range(4):
        allocator.alloc(8 * MIB, PARAMETERS)
    whole = 0
    for at in range(1, batches + 1):
        states = 0
        for _ in range(4):
            made = allocator.alloc(2 * MIB, [*HIDDEN, *loop])
            allocator.free(states)
            states = made
        logits = allocator.alloc(6 * MIB, [*LOGITS, *loop])
        allocator.free(states)
        if grows:
            joined = allocator.alloc(
                at * 6 * MIB, [frame(PACKAGES + "transformers/trainer_pt_utils.py", 86, "cat"), *loop]
            )
            allocator.free(whole)
            whole = joined
        if grows or not keeps:
            allocator.free(logits)
    return allocator


# Evaluation that keeps its outputs.


@pytest.mark.parametrize("grows", [False, True])
def test_outputs_that_the_trainer_keeps_have_its_own_remedies(grows: bool, tmp_path: Path) -> None:
    of = judge(tmp_path, evaluation(BY_TRAINER, grows=grows).snapshot())

    assert names(of) == ["evaluation-keeps-outputs"]
    for remedy in (
        "eval_accumulation_steps", "prediction_loss_only", "preprocess_logits_for_metrics", "batch_eval_metrics",
        "eval_do_concat_batches",
    ):  # fmt: skip
        assert remedy in of.findings[0].do
    assert {row.category for row in of.devices[0].at_peak} == {"parameters", "evaluation"}


@pytest.mark.parametrize("loop", [BY_LOOP, UNNAMED])
def test_outputs_that_a_loop_of_ones_own_keeps_are_found_by_name_or_by_what_stays(
    loop: list[Frame], tmp_path: Path
) -> None:
    of = judge(tmp_path, recorded(evaluation(loop).snapshot(), stacks="all"))
    kept = of.devices[0].kept_by_evaluation

    assert names(of) == ["evaluation-keeps-outputs"]
    assert kept is not None
    assert (kept.bytes, kept.blocks, kept.line) == (72 * MIB, 12, loop[0]["line"])
    assert "train.py" in told(tmp_path)
    assert "inference_mode" in of.findings[0].do


@pytest.mark.parametrize("loop", [BY_TRAINER, BY_LOOP, UNNAMED])
def test_an_evaluation_that_keeps_nothing_has_no_finding(loop: list[Frame], tmp_path: Path) -> None:
    assert judge(tmp_path, evaluation(loop, keeps=False).snapshot()).findings == ()


def test_an_oom_of_kept_outputs_names_them_first(tmp_path: Path) -> None:
    allocator = evaluation(BY_TRAINER)
    allocator.limit = allocator.reserved() + 30 * MIB
    allocator.alloc(90 * MIB, [*LOGITS, *BY_TRAINER])

    of = judge(tmp_path, allocator.snapshot())

    assert names(of) == ["evaluation-keeps-outputs", "out-of-memory"]
    assert "in an evaluation" in of.findings[1].says


def test_pieces_that_are_not_enough_alone_come_after_outputs_that_are_kept(tmp_path: Path) -> None:
    """All that is free would be enough, joined with the 12 MiB of the device; for the next batch it is not."""
    allocator = evaluation(BY_TRAINER)
    freed = sum(b["size"] for s in allocator.segments for b in s["blocks"] if b["state"] == "inactive")
    allocator.limit = allocator.reserved() + 12 * MIB
    allocator.alloc(freed + 12 * MIB, [*LOGITS, *BY_TRAINER])

    assert names(judge(tmp_path, allocator.snapshot())) == [
        "evaluation-keeps-outputs", "fragmentation", "out-of-memory",
    ]  # fmt: skip


def layers(checkpointed: bool) -> Allocator:
    """A forward pass of twelve layers with gradients: the same stack for each of them."""
    allocator = Allocator(limit=4000 * MIB)
    wraps = [frame(TORCH + "utils/checkpoint.py", 490, "checkpoint")] if checkpointed else []
    for _ in range(12):
        for line in (301, 302, 303):
            made = allocator.alloc(4 * MIB, [frame(LLAMA, line, "forward"), CALL, *wraps, *LAYER, *USERS])
            if line == 301 or (checkpointed and line == 302):
                allocator.free(made)
    return allocator


def generating() -> Allocator:
    """A cache of keys for each layer grows while text is generated in an evaluation."""
    allocator = Allocator(limit=4000 * MIB)
    cache = [frame(PACKAGES + "transformers/cache_utils.py", 136, "update"), *LAYER]
    for _ in range(12):
        allocator.alloc(
            8 * MIB, [*cache, frame(PACKAGES + "transformers/generation/utils.py", 2, "generate"), *BY_LOOP]
        )
    return allocator


@pytest.mark.parametrize("make", [healthy, lambda: layers(False), lambda: layers(True), generating])
def test_what_training_and_generation_hold_is_no_output_that_is_kept(
    make: Callable[[], Allocator], tmp_path: Path
) -> None:
    assert judge(tmp_path, make().snapshot()).findings == ()


@pytest.mark.parametrize(
    ("functions", "category"),
    [
        (["validation_step", "run"], "evaluation"),
        (["run_evaluation", "train"], "evaluation"),
        (["evaluate", "_maybe_log_save_evaluate", "_inner_training_loop", "train"], "evaluation"),
        (["test", "main"], "evaluation"),
        (["predict", "<module>"], "evaluation"),
        (["evaluate_actions", "train", "learn"], "activations"),
        (["predict", "training_step"], "activations"),
        (["train_and_evaluate", "main"], "activations"),
        (["evaluator", "test_loader_of", "main"], "activations"),
    ],
)
def test_an_evaluation_is_told_from_training_by_its_functions(
    functions: list[str], category: str, tmp_path: Path
) -> None:
    allocator = Allocator(limit=100 * MIB)
    allocator.alloc(4 * MIB, [*LOGITS, *(frame("/home/me/train.py", 9, name) for name in functions)])

    assert judge(tmp_path, allocator.snapshot()).devices[0].at_peak[0].category == category
