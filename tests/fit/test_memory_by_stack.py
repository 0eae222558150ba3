"""Memory as each training stack's code keeps it: one job of each by hand, and every public row that ran."""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fit_jobs import GPUS, job
from fitting.memory import absolute_errors, fitting_share
from fitting.memory_rows import SOURCES, TORCHTITAN, torchtitan_rows, ultrascale_rows
from public_tables import public_table

from diagnose.errors import UserError
from diagnose.predict.memory.estimate import memory_estimate, stage_estimates, stage_parameters
from diagnose.predict.memory.fits import Fits
from diagnose.predict.memory.job import JobPlan, Sharding
from diagnose.predict.memory.ledgers import ledgers

FSDP = Sharding(dp=8, zero=3)


def kept(plan: JobPlan) -> dict[str, float]:
    """Bytes of each transient part for each token of a block, or of the batch where blocks do not matter."""
    parts = {part.name: part.bytes for part in stage_estimates(plan)[0].parts if part.transient}
    tokens = plan.micro_batch_tokens
    blocks = 1 if plan.checkpointing != "none" else plan.model.layers
    whole = "logits and loss", "communication buffers", "fragmentation", "checkpoints"
    return {name: size / tokens / (1 if name in whole else blocks) for name, size in parts.items()}


def test_llm_foundry_keeps_fused_norms_and_two_16_bit_copies_of_the_logits() -> None:
    part = kept(job("MPT-7b", FSDP, stack="llm-foundry", micro_batch=6))
    assert part["norm activations"] == 2 * (2 + 2) * 4096  # input and output of both
    assert part["attention activations"] == 4 * 2 * 4096  # queries, keys, values, output
    assert part["feed-forward activations"] == 2 * 2 * 16384  # before and after the activation function
    assert part["logits and loss"] == (2 + 2) * 50368  # the logits and their gradient


def test_torchtitan_saves_every_second_product_and_a_loss_in_fp32() -> None:
    plan = job("Llama-3.1-8B", FSDP, stack="torchtitan", checkpointing="selective", micro_batch=2, seq_len=8192)
    part = kept(plan)
    products = 4096 + 1024 + 14336 + 4096  # query, value, gate, down
    assert part["checkpoints"] == 32 * 2 * (4096 + 4096 + products)  # with the block's input and attention's output
    assert part["logits and loss"] == 3 * 4 * 128256
    assert part["norm activations"] == 2 * (4 + 2 + 2) * 4096  # of the block that is computed again


def test_a_pipeline_of_torchtitan_keeps_weights_gathered_and_gradients_whole() -> None:
    plan = job("Llama-3.1-8B", Sharding(dp=8, pp=4, zero=3), stack="torchtitan", accumulation=4)
    first, held = stage_estimates(plan)[0], stage_parameters(plan, 0)
    assert first.bytes_of("gathered weights") == 2 * held
    assert first.bytes_of("gradients") == 4 * held + 4 * held / 8
    assert first.bytes_of("communication buffers") == 0


def test_megatron_sums_gradients_in_the_product_and_keeps_inputs_in_fp8() -> None:
    plan = job("Llama-3.1-8B", Sharding(dp=8, zero=1), stack="megatron", dtype="bf16-master-fp32-grads", fp8=True)
    part, held = kept(plan), plan.model.parameters
    assert memory_estimate(plan).bytes_of("gradients") == 4 * held  # none in bf16 beside them
    assert part["norm activations"] == 2 * (2 + 1) * 4096
    assert part["attention activations"] == 2 * (4096 + 2 * 1024 + 4096) + 4096  # its output in fp8, too
    assert part["feed-forward activations"] == (2 * 2 + 1) * 14336  # gate and up; their product
    assert part["logits and loss"] == (2 + 4) * 128256


def test_megatrons_sharded_weights_move_half_of_the_activations_to_a_grace_host() -> None:
    plan = job("Llama-3.1-70B", Sharding(dp=64, zero=3), stack="megatron", gpu="H200-SXM-141GB")
    grace, plain = replace(plan, gpu=GPUS["GB200-186GB"]), plan
    assert kept(grace)["feed-forward activations"] == kept(plain)["feed-forward activations"] / 2


def test_nanotron_keeps_queries_before_and_after_the_rotary_embedding() -> None:
    plan = job("ultrascale-1B", Sharding(dp=8, zero=1), stack="nanotron", dtype="bf16-master-fp32-grads", seq_len=4096)
    part = kept(plan)
    assert part["norm activations"] == 2 * (2 + 2) * 2048
    assert part["attention activations"] == (3 + 3 + 2) * 2 * 2048  # before, after, the output twice
    assert part["feed-forward activations"] == 4 * 2 * 8192
    assert part["logits and loss"] == (2 + 2 * 4) * 131072
    assert memory_estimate(plan).bytes_of("gradients") == (4 + 2) * plan.model.parameters


def test_nanotron_keeps_gathered_inputs_where_there_is_room() -> None:
    plan = job("ultrascale-8B", Sharding(tp=16), stack="nanotron", micro_batch=4, seq_len=4096)
    assert kept(plan)["gathered inputs"] == 2 * 2 * 4096 * 15 / 16
    crowded = replace(plan, micro_batch=24)
    assert memory_estimate(crowded).bytes_of("gathered inputs") == 0
    assert memory_estimate(crowded).headroom_bytes >= 0


def test_transformers_keeps_unfused_norms_repeated_keys_and_four_copies_of_the_logits() -> None:
    part = kept(job("Llama-3.1-8B", dtype="bf16"))
    assert part["norm activations"] == 2 * (4 + 2 + 2) * 4096
    assert part["attention activations"] == 4 * 2 * 4096
    assert part["logits and loss"] == (2 + 3 * 4) * 128256


@pytest.mark.parametrize(
    ("low", "likely", "high", "answer", "runs"),
    [
        (80, 90, 100, "yes", True),
        (90, 99, 101, "tight", True),
        (100, 104, 110, "tight", True),
        (101, 105, 110, "no", False),
    ],
)
def test_a_job_fits_if_its_range_does_tightly_if_a_part_of_it_does(
    low: int, likely: int, high: int, answer: str, runs: bool
) -> None:
    fits = Fits(likely, low, high, capacity_bytes=100, because="")
    assert (fits.answer, fits.runs, fits.margin_bytes) == (answer, runs, 100 - likely)


@pytest.mark.parametrize(
    ("stack", "changes", "because"),
    [
        ("transformers", {}, "calibrated on"),
        ("transformers", {"sharding": FSDP, "gpus": 8}, "not calibrated: no row of transformers has sharded weights"),
        ("transformers", {"compiled": True}, "not calibrated: no row of transformers has compile"),
        ("llm-foundry", {"sharding": FSDP, "gpus": 8}, "bounded by rows that ran but state no memory"),
        ("nanotron", {"checkpointing": "full"}, "not calibrated: no row of nanotron has checkpointing"),
    ],
)
def test_the_range_says_on_what_it_stands_and_is_the_widest_where_nothing_does(
    stack: str, changes: dict[str, Any], because: str
) -> None:
    span = memory_estimate(replace(job("Llama-3.2-1B", stack=stack), **changes)).span
    assert span.because.startswith(because)
    others = [ledger.span for ledger in ledgers().values()]
    widest = min(low for low, _ in others), max(high for _, high in others)
    assert ((span.low, span.high) == widest) == because.startswith("not calibrated")


def test_an_unknown_stack_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="use one of transformers"):
        job("Llama-3.2-1B", stack="mine")


@pytest.mark.parametrize("stack", SOURCES)
def test_of_the_rows_that_ran_nearly_all_fit_and_of_those_that_failed_none(stack: str) -> None:
    file, read = SOURCES[stack]
    rows = list(read(public_table(file) if file else Path()))
    assert fitting_share(rows) >= 0.95
    assert [row.what for row in rows if not row.ran and row.answer != "no"] == []


def test_the_range_of_the_playbook_holds_four_in_five_of_its_rows() -> None:
    rows = list(ultrascale_rows(public_table(SOURCES["nanotron"][0])))
    low, high = ledgers()["nanotron"].span
    inside = sum(low <= row.measured_gib / row.predicted_gib <= high for row in rows if row.measured_gib)
    assert inside >= 0.8 * (len(rows) - 1)


def test_torchtitans_memory_is_met_within_an_eighth_until_its_loss_was_compiled() -> None:
    rows = list(torchtitan_rows(public_table(TORCHTITAN)))
    earlier = [row for row in rows if "2025" not in row.what]
    assert len(earlier) == 18
    assert max(absolute_errors(earlier)) <= 0.125
    assert statistics.median(absolute_errors(rows)) <= 0.05
    for row in set(rows) - set(earlier):
        assert row.measured_gib is not None
        assert memory_estimate(row.plan).span.low <= row.measured_gib / row.predicted_gib < 1
