"""The predicted step: parts that add up, and the sizes of what tensor, pipeline and data parallelism cost."""

from dataclasses import replace

import pytest

from diagnose.commands.fit.boards import fewest_nodes, gpu_named
from diagnose.commands.fit.stacks import stack_of, stacks
from diagnose.commands.fit.step_time import predict_step
from diagnose.commands.fit.transfers import gathering_s, nodes_spanned, shard_latency_s, tensor_parallel_s
from diagnose.errors import UserError
from diagnose.formulas.model import ModelShape
from diagnose.formulas.size_curve import NETWORK_LATENCY_S
from diagnose.predict.memory.job import JobPlan, Sharding

MODEL = ModelShape(hidden=4096, layers=32, heads=32, ffn=14336, vocab=131072)
NANOTRON = stack_of("nanotron")
TRANSFORMERS = stack_of("transformers").with_rates({"hook_s": 0.0})


def plan(dp=1, tp=1, pp=1, zero=0, nodes=1, **more):
    sharding = Sharding(dp, tp, pp, zero)
    given = {"seq_len": 4096, "dtype": "bf16-master-fp32-grads"} | more
    return JobPlan("test", MODEL, gpu_named("H100"), dp * tp * pp, nodes, sharding=sharding, **given)


@pytest.mark.parametrize("name", list(stacks()))
@pytest.mark.parametrize("division", [{}, {"dp": 8, "zero": 3}, {"dp": 4, "tp": 8, "pp": 4, "nodes": 16, "zero": 1}])
def test_the_parts_add_up_and_the_range_holds_the_prediction(name, division):
    step = predict_step(plan(**division), stack_of(name))
    assert sum(step.parts.values()) == pytest.approx(step.step_s)
    assert min(step.parts.values()) >= 0
    assert step.fastest_s < step.step_s < step.slowest_s


def test_matrix_products_take_six_flops_for_each_weight_and_token_at_the_rate_of_the_stack():
    # 32 blocks of 4 x 4096 x 4096 + 3 x 4096 x 14336 weights and a head of 131072 x 4096, 4096 tokens
    flops = 6 * 4096 * (32 * (4 * 4096**2 + 3 * 4096 * 14336) + 131072 * 4096)
    rate = 989.4e12 * NANOTRON.matrix_share * 4096 / (4096 + NANOTRON.matrix_half_width)
    assert predict_step(plan(), NANOTRON).parts["matrix products"] == pytest.approx(flops / rate)


def test_a_pipeline_of_four_stages_adds_the_time_of_three_to_that_of_its_micro_batches():
    parts = predict_step(plan(pp=4, accumulation=8), NANOTRON.with_rates({"logits_bytes": 0.0})).parts
    without_head = replace(MODEL, vocab=1)
    even = predict_step(replace(plan(pp=4, accumulation=8), model=without_head), NANOTRON).parts
    once_a_step = (
        "pipeline bubble", "data-parallel transfers", "optimizer", "once a step", "waiting for the slowest rank"
    )  # fmt: skip
    of_micro_batches = sum(seconds for name, seconds in even.items() if name not in once_a_step)
    assert even["pipeline bubble"] == pytest.approx(of_micro_batches * 3 / 8, rel=0.01)
    assert parts["pipeline bubble"] < sum(parts.values())


def test_tensor_parallel_transfers_cost_more_between_nodes_than_inside_one():
    inside, between = plan(tp=8), plan(tp=16, nodes=2)
    assert tensor_parallel_s(plan(), NANOTRON) == 0
    assert tensor_parallel_s(between, NANOTRON) > tensor_parallel_s(inside, NANOTRON) > 0


def test_a_data_parallel_group_spans_the_nodes_that_its_ranks_lie_on():
    assert nodes_spanned(plan(dp=8)) == 1
    assert nodes_spanned(plan(dp=16, nodes=2)) == 2
    assert nodes_spanned(plan(dp=4, tp=8, nodes=4)) == 4
    assert nodes_spanned(plan(dp=2, tp=4, pp=2, nodes=2)) == 1


def test_between_nodes_the_groups_of_a_node_share_its_network():
    # two nodes exchange half of 1e9 parameters of 2 bytes for each of 8 tensor-parallel groups of a node
    rate = NANOTRON.node_gbs * 1e9 / (1 + 2 / NANOTRON.half_nodes)
    latencies = 33 * NETWORK_LATENCY_S  # of 32 blocks and what is in none
    assert gathering_s(plan(dp=2, tp=8, nodes=2), NANOTRON, 1e9) == pytest.approx(8 * 1e9 / rate + latencies)


def test_gathering_new_weights_passes_every_rank_between_nodes_once_for_each_block():
    assert shard_latency_s(plan(dp=8, zero=1), NANOTRON) == 0
    latency = shard_latency_s(plan(dp=16, zero=1, nodes=2), NANOTRON)
    assert latency == pytest.approx(32 * 15 * NANOTRON.ring_hop_s)
    few, many = (predict_step(plan(dp=dp, tp=tp, zero=1, nodes=8), NANOTRON).parts for dp, tp in ((8, 8), (64, 1)))
    assert many["data-parallel transfers"] > few["data-parallel transfers"]


def test_recomputation_is_a_third_of_what_the_blocks_compute():
    none, full = (predict_step(plan(checkpointing=kind), NANOTRON).parts for kind in ("none", "full"))
    assert none["recomputation"] == 0
    blocks = full["matrix products"] * 32 / (32 + 131072 * 4096 / (4 * 4096**2 + 3 * 4096 * 14336))
    assert full["recomputation"] == pytest.approx((blocks + full["attention"] + full["elementwise"]) / 3)


def test_small_micro_batches_wait_for_the_host():
    waits = [
        predict_step(plan(tp=8, micro_batch=size), NANOTRON).parts["waiting for launches and latencies"]
        for size in (1, 8)
    ]
    assert waits[0] > 0.05 > waits[1]


def test_the_optimizer_moves_the_bytes_that_the_number_type_keeps():
    # 2 + 2 + 4 bytes of weight, gradient and AdamW's states in bf16, twice as many in fp32, 2 + 2 with SGD
    stack = stack_of("transformers")
    seconds = {
        name: predict_step(plan(**more), stack).parts["optimizer"]
        for name, more in {
            "bf16": {"dtype": "bf16"},
            "mixed": {"dtype": "bf16-mixed"},
            "sgd": {"dtype": "bf16", "optimizer": "sgd"},
        }.items()
    }
    assert seconds["mixed"] == pytest.approx(2 * seconds["bf16"]) == pytest.approx(4 * seconds["sgd"])


def test_eager_attention_is_slower_than_fused_and_liger_faster_than_none():
    stack = stack_of("transformers")
    step = {name: predict_step(plan(**more), stack).step_s for name, more in {
        "eager": {"attention": "eager"}, "sdpa": {}, "liger": {"liger": True},
    }.items()}  # fmt: skip
    assert step["eager"] > step["sdpa"] > step["liger"]


def test_a_board_without_the_precision_is_refused():
    with pytest.raises(UserError, match="no tf32 peak is known of this GPU: V100"):
        predict_step(replace(plan(dtype="tf32"), gpu=gpu_named("V100")), NANOTRON)


@pytest.mark.parametrize(
    ("name", "key"),
    [("H100", "H100-SXM5-80GB"), ("h100-80gb (as printed)", "H100-SXM5-80GB"), ("H100-64GB-MN5", "H100-64GB-MN5"),
     ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"), ("a100_80gb", "A100-SXM4-80GB")],
)  # fmt: skip
def test_a_board_is_found_by_key_name_or_words(name, key):
    assert gpu_named(name).key == key


@pytest.mark.parametrize(("gpus", "nodes"), [(1, 1), (8, 1), (12, 2), (16, 2), (20, 4), (512, 64)])
def test_gpus_are_spread_evenly_over_the_fewest_machines_of_eight(gpus, nodes):
    assert fewest_nodes(gpus) == nodes


def test_unknown_boards_and_stacks_say_what_is_known():
    with pytest.raises(UserError, match="did you mean"):
        gpu_named("H1000")
    with pytest.raises(UserError, match="use one of nanotron, llm-foundry, torchtitan, transformers, megatron"):
        stack_of("deepspeed")


def test_shard_grad_op_gathers_the_weights_once_for_each_micro_batch_and_full_shard_twice():
    """Beside master weights stage 2 keeps the weights whole and gathers the new ones once a step."""
    jobs = [plan(dp=8, zero=zero, accumulation=4, dtype="bf16-mixed") for zero in (2, 3)]
    once, twice = (predict_step(job, TRANSFORMERS).parts for job in jobs)
    assert 0 < once["sharded weights"] < twice["sharded weights"]
    assert once["data-parallel transfers"] == twice["data-parallel transfers"] == 0
    whole = predict_step(plan(dp=8, zero=2, accumulation=4, dtype="bf16-master"), TRANSFORMERS).parts
    assert whole["data-parallel transfers"] > 0
    assert whole["sharded weights"] < once["sharded weights"]
