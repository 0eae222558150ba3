"""The memory ledger: parts by hand, what must never grow, and rows that were measured."""

import statistics
from dataclasses import replace

import pytest
from fit_jobs import job
from fitting.memory import absolute_errors
from fitting.memory_rows import ULTRASCALE, ladder_rows, ultrascale_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from public_tables import public_table

from diagnose.formulas.model import ModelShape
from diagnose.predict.memory.estimate import GIB, memory_estimate, stage_estimates
from diagnose.predict.memory.job import CHECKPOINTINGS, JobPlan, Sharding
from diagnose.predict.memory.precision import OPTIMIZERS, PRECISIONS
from diagnose.predict.memory.remedies import largest_micro_batch, remedies

PARAMETERS = 1_235_814_400  # Llama-3.2-1B
TOKENS, LAYERS, HIDDEN, FFN, VOCAB = 5 * 1024, 16, 2048, 8192, 128_256


def test_the_state_of_bf16_adamw_is_eight_bytes_for_each_parameter() -> None:
    estimate = memory_estimate(job("Llama-3.2-1B", dtype="bf16"))
    assert estimate.bytes_of("weights") == estimate.bytes_of("gradients") == 2 * PARAMETERS
    assert estimate.bytes_of("optimizer states") == 4 * PARAMETERS
    assert estimate.bytes_of("master weights") == 0


def test_eager_activations_in_bf16_by_hand() -> None:
    estimate = memory_estimate(job("Llama-3.2-1B", dtype="bf16", attention="eager", micro_batch=5, seq_len=1024))
    assert estimate.bytes_of("attention scores") == LAYERS * TOKENS * 32 * 1024 * (
        4 + 2
    )  # fp32 softmax and its bf16 copy
    assert estimate.bytes_of("attention activations") == LAYERS * TOKENS * 4 * HIDDEN * 2  # keys and values repeated
    assert estimate.bytes_of("feed-forward activations") == LAYERS * TOKENS * 4 * FFN * 2
    assert estimate.bytes_of("norm activations") == LAYERS * TOKENS * 2 * (4 + 2 + 2) * HIDDEN
    assert estimate.bytes_of("logits and loss") == TOKENS * VOCAB * (2 + 4 + 4 + 4)


def test_liger_keeps_no_logits_but_the_gradient_of_the_head() -> None:
    with_liger = memory_estimate(job("Llama-3.2-1B", dtype="bf16", liger=True, micro_batch=5, seq_len=1024))
    assert with_liger.bytes_of("logits and loss") == VOCAB * HIDDEN * 2 + TOKENS * HIDDEN * 2 * 2


def test_autocast_keeps_a_16_bit_copy_of_each_weight_and_fsdp_does_not() -> None:
    ddp, fsdp = (memory_estimate(job("Llama-3.2-1B", Sharding(dp=8, zero=zero))) for zero in (0, 3))
    assert ddp.bytes_of("weights cast by autocast") == 2 * PARAMETERS
    assert fsdp.bytes_of("weights cast by autocast") == 0
    assert fsdp.bytes_of("weights") == round(4 * PARAMETERS / 8)


@pytest.mark.parametrize(("dtype", "weight", "gathered"), [("bf16-mixed", 4, 2), ("fp32", 4, 4), ("bf16", 2, 2)])
def test_shard_grad_op_divides_the_weights_and_keeps_all_that_it_gathers(
    dtype: str, weight: int, gathered: int
) -> None:
    estimate = memory_estimate(job("Llama-3.2-1B", Sharding(dp=8, zero=2), dtype=dtype))
    assert estimate.bytes_of("weights") == round(weight * PARAMETERS / 8)
    assert estimate.bytes_of("gathered weights") == gathered * PARAMETERS
    assert estimate.bytes_of("weights cast by autocast") == 0


def test_zero_2_beside_master_weights_keeps_the_weights_whole() -> None:
    estimate = memory_estimate(job("Llama-3.2-1B", Sharding(dp=8, zero=2), dtype="bf16-master"))
    assert estimate.bytes_of("weights") == 2 * PARAMETERS
    assert estimate.bytes_of("gathered weights") == 0


def test_hsdp_divides_by_the_ranks_of_one_replica() -> None:
    estimate = memory_estimate(job("Llama-3.2-1B", Sharding(dp=8, zero=3, replicas=2)))
    assert estimate.bytes_of("weights") == round(4 * PARAMETERS / 4)


def test_full_checkpointing_keeps_the_inputs_of_blocks_and_one_block() -> None:
    plan = job("Llama-3.2-1B", dtype="bf16", checkpointing="full", micro_batch=5, seq_len=1024)
    estimate, whole = memory_estimate(plan), memory_estimate(replace(plan, checkpointing="none"))
    assert estimate.bytes_of("checkpoints") == LAYERS * TOKENS * HIDDEN * 2
    assert estimate.bytes_of("feed-forward activations") == whole.bytes_of("feed-forward activations") / LAYERS


def test_the_first_stage_holds_the_most_micro_batches_and_the_last_one_the_logits() -> None:
    stages = stage_estimates(job("Llama-3.2-1B", Sharding(pp=4), dtype="bf16", accumulation=8))
    kept = [estimate.bytes_of("feed-forward activations") for estimate in stages]
    assert [size / kept[3] for size in kept] == [4, 3, 2, 1]
    assert [bool(estimate.bytes_of("logits and loss")) for estimate in stages] == [False, False, False, True]


def test_tensor_parallelism_divides_all_but_its_own_buffers() -> None:
    one, eight = (memory_estimate(job("Llama-3.2-1B", Sharding(tp=tp), dtype="bf16")) for tp in (1, 8))
    assert eight.bytes_of("feed-forward activations") == one.bytes_of("feed-forward activations") / 8
    assert one.bytes_of("communication buffers") == 0
    assert eight.bytes_of("communication buffers") == 4 * 2048 * HIDDEN * 2


MODELS = ("Llama-3.2-1B", "Llama-3.1-8B", "OPT-1.3B", "Qwen2.5-7B", "Mixtral-8x7B-v0.1", "gemma-2-9b")
JOBS = st.builds(
    job,
    st.sampled_from(MODELS),
    st.builds(Sharding, dp=st.sampled_from((2, 4, 8)), tp=st.sampled_from((1, 2)), pp=st.sampled_from((1, 2))),
    seq_len=st.sampled_from((512, 4096)),
    micro_batch=st.integers(1, 8),
    accumulation=st.integers(1, 8),
    dtype=st.sampled_from(sorted(PRECISIONS)),
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    attention=st.sampled_from(("eager", "sdpa", "flash")),
    liger=st.booleans(),
)


def _bytes(plan: JobPlan) -> int:
    return memory_estimate(plan).total_bytes


@given(JOBS)
@settings(deadline=None)
def test_the_parts_add_up_and_none_is_negative(plan: JobPlan) -> None:
    for estimate in stage_estimates(plan):
        assert sum(part.bytes for part in estimate.parts) == estimate.total_bytes
        assert all(part.bytes > 0 for part in estimate.parts)
        assert estimate.headroom_bytes == plan.gpu.memory_bytes - estimate.total_bytes


@given(JOBS)
@settings(deadline=None)
def test_a_higher_zero_stage_never_needs_more(plan: JobPlan) -> None:
    sizes = [_bytes(replace(plan, sharding=replace(plan.sharding, zero=zero))) for zero in (0, 1, 2)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("model", MODELS)
def test_zero_3_needs_less_than_zero_2_where_blocks_outweigh_what_it_gathers(model: str) -> None:
    assert _bytes(job(model, Sharding(dp=8, zero=3))) < _bytes(job(model, Sharding(dp=8, zero=2)))


@given(JOBS)
@settings(deadline=None)
def test_more_checkpointing_never_needs_more(plan: JobPlan) -> None:
    sizes = [_bytes(replace(plan, checkpointing=kind)) for kind in CHECKPOINTINGS]
    assert sizes == sorted(sizes, reverse=True)


@given(JOBS)
@settings(deadline=None)
def test_more_sequences_longer_sequences_and_eager_attention_never_need_less(plan: JobPlan) -> None:
    assert _bytes(replace(plan, micro_batch=plan.micro_batch + 1)) > _bytes(plan)
    assert _bytes(replace(plan, seq_len=2 * plan.seq_len)) > _bytes(plan)
    assert _bytes(replace(plan, attention="eager")) >= _bytes(replace(plan, attention="sdpa"))


@given(JOBS)
@settings(deadline=None, max_examples=30)
def test_the_largest_micro_batch_fits_and_the_next_one_does_not(plan: JobPlan) -> None:
    largest = largest_micro_batch(plan)
    assert largest == 0 or memory_estimate(replace(plan, micro_batch=largest)).fits.margin_bytes >= 0
    assert memory_estimate(replace(plan, micro_batch=largest + 1)).fits.margin_bytes < 0


def test_remedies_make_room_and_the_one_that_makes_most_comes_first() -> None:
    plan = job("Llama-3.2-1B", gpu="H100-64GB-MN5", dtype="bf16", attention="eager", micro_batch=5, seq_len=1024)
    found = {remedy.name: remedy.largest_micro_batch for remedy in remedies(plan)}
    assert largest_micro_batch(plan) == 7
    assert found["SDPA instead of eager attention"] == 14
    assert next(iter(found)) == "full activation checkpointing"
    assert "ZeRO-1" not in found  # one GPU has nobody to divide with


def test_zero_is_a_remedy_of_several_ranks_and_liger_none_of_a_model_without_a_gate() -> None:
    names = {remedy.name for remedy in remedies(job("OPT-1.3B", Sharding(dp=4, zero=1)))}
    assert "ZeRO-2 (FSDP SHARD_GRAD_OP)" in names
    assert not names & {"ZeRO-1", "Liger kernels"}


LADDER = list(ladder_rows())


@pytest.mark.parametrize("row", [row for row in LADDER if row.error is not None], ids=lambda row: row.what)
def test_the_memory_of_the_ladder_is_met_within_ten_percent(row) -> None:  # type: ignore[no-untyped-def]
    assert abs(row.error) <= 0.10


@pytest.mark.parametrize(
    ("dtype", "attention", "liger", "largest"),
    [
        ("fp32", "eager", False, 6),
        ("bf16", "eager", False, 7),
        ("bf16", "sdpa", False, 14),
        ("bf16", "sdpa", True, 37),
    ],
)
def test_the_limits_of_the_ladder_are_met_within_one_sequence(
    dtype: str, attention: str, liger: bool, largest: int
) -> None:
    plan = job("Llama-3.2-1B", gpu="H100-64GB-MN5", dtype=dtype, attention=attention, liger=liger, seq_len=1024)
    assert abs(largest_micro_batch(plan) - largest) <= 1


def test_what_ran_out_of_memory_on_the_ladder_does_not_fit_and_what_ran_does() -> None:
    assert [row.answer != "no" for row in LADDER] == [row.ran for row in LADDER]


def test_one_sequence_fewer_than_what_ran_out_of_memory_fits() -> None:
    failed = [row.plan for row in LADDER if not row.ran]
    assert len(failed) >= 3
    for plan in failed:
        assert memory_estimate(replace(plan, micro_batch=plan.micro_batch - 1)).fits.runs


@pytest.mark.parametrize(("dtype", "attention", "largest"), [("fp32", "eager", 4), ("bf16", "sdpa", 16)])
def test_the_limits_of_opt_are_met_within_one_sequence(dtype: str, attention: str, largest: int) -> None:
    plan = job("OPT-1.3B", gpu="H100-64GB-MN5", dtype=dtype, attention=attention, seq_len=1024)
    assert abs(largest_micro_batch(plan) - largest) <= 1


def test_opt_keeps_the_output_of_sdpa_twice() -> None:
    opt, llama = (memory_estimate(job(name, dtype="bf16", seq_len=1024)) for name in ("OPT-1.3B", "Llama-3.2-1B"))
    assert opt.bytes_of("attention activations") == 24 * 1024 * 5 * 2048 * 2
    assert llama.bytes_of("attention activations") == 16 * 1024 * 4 * 2048 * 2


def test_the_playbooks_memory_is_met_within_seven_percent_in_the_median() -> None:
    rows = list(ultrascale_rows(public_table(ULTRASCALE)))
    assert len(rows) > 100
    assert statistics.median(absolute_errors(rows)) <= 0.07


def test_a_board_has_the_memory_that_it_was_seen_to_report() -> None:
    assert job("OPT-1.3B").gpu.memory_bytes == 85_018_279_936
    assert job("OPT-1.3B", gpu="H100-64GB-MN5").gpu.memory_bytes == int(63.43 * GIB)
    assert job("OPT-1.3B", gpu="L40S").gpu.memory_bytes == 48_000_000_000  # none was seen: as marketed


def test_a_factored_moment_is_a_row_and_a_column_of_each_matrix() -> None:
    shape = ModelShape(hidden=4, layers=1, heads=2, ffn=8, vocab=10)
    attention, feed_forward, tables, norms = 4 * (4 + 4), 3 * (4 + 8), 2 * (10 + 4), 3 * 4
    assert shape.factored_values == attention + feed_forward + tables + norms
    experts = replace(shape, experts=3, experts_per_token=1, expert_ffn=8)
    assert experts.factored_values == attention + 3 * feed_forward + (4 + 3) + tables + norms
