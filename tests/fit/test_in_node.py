"""What several GPUs of a node cost: replicas, shards, the slowest rank, copies, hooks and links."""

from dataclasses import replace

import pytest
from fit_jobs import GPUS, job
from fitting.published_pairs import published_pairs
from fitting.rows import LADDER, ladder_plan, rows_of
from public_tables import public_table

from diagnose.commands.fit.stacks import stack_of, stacks
from diagnose.commands.fit.step_time import predict_step, slowest_of
from diagnose.commands.fit.transfers import _link_gbs, copied_bytes, gathering_s, hooks_s
from diagnose.predict.memory.job import Sharding

STACK = stack_of("transformers")
LLAMA = {"gpu": "H100-64GB-MN5", "dtype": "bf16", "liger": True, "seq_len": 1024, "micro_batch": 37}


def seconds(gpus: int, nodes: int = 1, zero: int = 0, model: str = "Llama-3.2-1B", **fields: object) -> float:
    given = LLAMA | fields
    return predict_step(job(model, Sharding(dp=gpus, zero=zero), nodes=nodes, **given), STACK).step_s


@pytest.mark.parametrize(("gpus", "nodes", "tax_ms"), [(2, 1, 35), (4, 1, 81), (8, 2, 128), (16, 4, 134), (32, 8, 125)])
def test_the_tax_of_replicas_is_what_the_ladder_measured(gpus: int, nodes: int, tax_ms: float) -> None:
    """Of both sources of the ladder the mean: Llama-3.2-1B, 37 sequences of 1,024 tokens, nodes of four GPUs."""
    assert 0.6 < 1e3 * (seconds(gpus, nodes) - seconds(1)) / tax_ms < 1.5


def test_every_replicated_row_of_the_ladder_is_within_a_tenth() -> None:
    rows = [row for row in rows_of(LADDER) if row["gpus"] != "1"]
    assert len(rows) > 10
    for row in rows:
        predicted = predict_step(ladder_plan(row), STACK).tokens_per_s_per_gpu
        assert predicted == pytest.approx(float(row["tokens_per_s_per_gpu"]), rel=0.1)


def test_the_slowest_of_more_ranks_is_further_behind() -> None:
    """Expected maxima of 2, 4 and 8 draws of a normal distribution: 0.56, 1.03 and 1.42 standard deviations."""
    assert slowest_of(1) == pytest.approx(0, abs=1e-9)
    assert [slowest_of(ranks) for ranks in (2, 4, 8)] == pytest.approx([0.56, 1.03, 1.42], abs=0.03)


def test_replicas_copy_each_gradient_into_a_bucket_and_back() -> None:
    plan = job("Llama-3.2-1B", Sharding(dp=4), gpu="H100-64GB-MN5", dtype="bf16")
    # 1e9 gradients of 2 bytes, read and written twice
    assert copied_bytes(plan, 1e9) == 8e9


def test_shards_copy_what_they_gather_with_each_micro_batch() -> None:
    plan = job("Llama-3.2-1B", Sharding(dp=4, zero=3), gpu="H100-64GB-MN5", dtype="bf16", accumulation=2)
    # twice: 1e9 weights of 2 bytes out of a buffer in both passes, and gradients into one, each read and written
    assert copied_bytes(plan, 1e9) == 2 * 2 * 3 * 2e9


def test_boards_that_a_bridge_joins_in_pairs_reach_others_over_pcie() -> None:
    eight, two = (job("Llama-3.2-1B", Sharding(dp=ranks), gpu="H100-PCIe-80GB") for ranks in (8, 2))
    assert _link_gbs(two, 2) == GPUS["H100-PCIe-80GB"].nvlink_one_way_gbs
    assert _link_gbs(eight, 8) is None
    assert gathering_s(eight, STACK, 1e9) > 7 * gathering_s(
        job("Llama-3.2-1B", Sharding(dp=8), gpu="H100-SXM5-80GB"), STACK, 1e9
    )


def test_gathering_block_by_block_pays_a_latency_for_each() -> None:
    few, many = (job(model, Sharding(dp=8, zero=3)) for model in ("Llama-3.2-1B", "Llama-3.1-8B"))
    assert gathering_s(many, STACK, 1.0) > 1.9 * gathering_s(few, STACK, 1.0)


@pytest.mark.parametrize(("zero", "hooked"), [(0, False), (1, True), (3, False)])
def test_zero_1_waits_for_a_hook_of_each_parameter(zero: int, hooked: bool) -> None:
    plan = job("Llama-3.2-1B", Sharding(dp=8, zero=zero), dtype="bf16-master")
    assert hooks_s(plan, STACK, 16) == pytest.approx(16 * 9 * STACK.hook_s if hooked else 0.0)


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_a_model_that_fits_runs_fastest_replicated(gpus: int, zero: int) -> None:
    """The ladder's job, which fits one GPU; where sharding the optimizer's step wins something, it is below 2 %."""
    assert seconds(gpus, zero=zero) > 0.98 * seconds(gpus)


def test_published_pairs_have_the_right_sign() -> None:
    pairs = list(published_pairs(public_table("pairs.csv"), stacks()))
    signs = {pair.name: pair.has_right_sign for pair in pairs if pair.has_right_sign is not None}
    assert len(signs) >= 7
    assert [name for name, right in signs.items() if not right] == []


def test_a_pair_that_cannot_be_expressed_has_a_reason() -> None:
    pairs = list(published_pairs(public_table("pairs.csv"), stacks()))
    assert all(pair.predicted or pair.because for pair in pairs)


def test_liger_launches_fewer_operators() -> None:
    """A job of tiny micro-batches waits for the host: 16 blocks and the head, of 2 ms each, or 0.56 of that."""
    plan = job("Llama-3.2-1B", dtype="bf16", seq_len=16)
    without, fused = (predict_step(replace(plan, liger=liger), STACK).parts for liger in (False, True))
    waits = [parts["waiting for launches and latencies"] for parts in (without, fused)]
    assert 0.4 < waits[1] / waits[0] < 0.56
