"""Mixtures of experts: how they are multiplied, what expert parallelism divides, and what is known of their speed."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.moe import exchange_s, expert_products_s
from diagnose.commands.fit.stacks import stack_of
from diagnose.commands.fit.step_time import predict_step
from diagnose.commands.fit.table import plan_of, read_table
from diagnose.formulas.named_models import NAMED_MODELS
from diagnose.predict.memory.adapters import ALL_LINEAR, Adapters
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.job import JobPlan, Sharding
from tests.public_tables import public_table

MEGATRON, TRANSFORMERS = stack_of("megatron"), stack_of("transformers")


def job(model="Qwen3-30B-A3B", gpus=16, zero=1, nodes=2, **more):
    sharding = Sharding(gpus, zero=zero, ep=more.pop("ep", 1))
    given = {"seq_len": 4096, "dtype": "bf16"} | more
    return JobPlan(model, NAMED_MODELS[model], gpu_named("H100"), gpus, nodes, sharding=sharding, **given)


def tuned(model, **more):
    """Adapters on eight GPUs with ZeRO-3, as a published run of three sizes of Qwen2."""
    given = {"seq_len": 512, "accumulation": 8, "checkpointing": "full", "adapters": Adapters(64, (ALL_LINEAR,))}
    return predict_step(job(model, 8, 3, 1, **given, **more), TRANSFORMERS)


def test_experts_in_a_loop_are_several_times_slower_than_a_dense_model_of_five_times_the_active_weights():
    # 57B-A14B took 2,713 s where 72B took 484 s: 5.6 times as long
    slower = tuned("Qwen2-57B-A14B", expert_products="loop").step_s / tuned("Qwen2.5-72B").step_s
    assert 4 < slower < 9


def test_grouped_products_are_faster_than_a_loop_by_its_launches():
    loop, grouped = (predict_step(job(expert_products=how), TRANSFORMERS) for how in ("loop", "grouped"))
    assert loop.step_s > 2 * grouped.step_s
    assert loop.parts["waiting for each expert's tokens"] > 0 == grouped.parts["waiting for each expert's tokens"]


def test_an_expert_with_few_tokens_takes_as_long_as_one_whose_tile_is_full():
    # 8 of 128 experts: 16 tokens make one row for each expert, 2048 tokens 128 rows
    few, full, more = (expert_products_s(job(seq_len=tokens), MEGATRON, 1e14, 1e15) for tokens in (16, 2048, 4096))
    assert few == full == pytest.approx(more / 2)


def test_expert_parallelism_divides_experts_alone():
    whole, divided = (memory_estimate(job(ep=ep, zero=0)).bytes_of("weights") for ep in (1, 8))
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    assert whole - divided == experts - experts // 8


def test_an_expert_is_sharded_among_the_ranks_that_hold_it():
    sharding = Sharding(dp=8, tp=2, ep=4)
    assert (sharding.shards, sharding.expert_shards) == (8, 4)


def test_the_exchange_of_tokens_costs_more_between_nodes_than_inside_one():
    assert exchange_s(job(), MEGATRON) == 0
    assert exchange_s(job(ep=16), MEGATRON) > exchange_s(job(ep=8), MEGATRON) > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--model qwen3-30b-a3b --ep 8 --stack transformers", "transformers has no expert parallelism"),
        ("--model llama-3.1-8b --ep 8", "the model has none"),
        ("--model qwen3-30b-a3b --ep 3", "ep may be 1, 2, 4, 8, 16"),
        ("--model llama-3.1-8b --experts loop", "it has no experts"),
    ],
)
def test_what_cannot_be_divided_so_is_refused_with_the_reason(options, says):
    done = CliRunner().invoke(main, ["fit", "--gpu", "H100", "--gpus", "16", *options.split()])
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())


def test_the_range_of_a_loop_is_wide_and_says_why():
    loop, grouped = (predict_step(job(expert_products=how), TRANSFORMERS).calibration for how in ("loop", "grouped"))
    assert min(loop.width, grouped.width) > 2
    assert "experts in a loop" in loop.says
    assert "no row of a mixture of experts with transformers" in grouped.says


def test_a_mixture_like_the_measured_ones_rests_on_their_rows():
    plan = replace(job(ep=16, fp8=True, dtype="bf16-master-fp32-grads"), attention="flash")
    calibration = predict_step(plan, MEGATRON).calibration
    assert calibration.rows > 0
    assert "mixture" not in calibration.says


def test_the_search_divides_experts_where_runs_tell_what_it_costs():
    options = "--model qwen3-30b-a3b --gpu H100 --gpus 16 --nodes 2 --stack megatron --seq-len 2048 --global-batch 32"
    done = CliRunner().invoke(main, ["fit", *options.split(), "--checkpointing", "full"])
    assert done.exit_code == 0, done.output
    assert " ep=" in done.output


def test_published_mixtures_are_met_within_a_third_in_the_median():
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from fitting.experts import megatron_mixtures
    from fitting.rates import ratios

    found = ratios(list(megatron_mixtures(public_table("megatron_bridge.csv"))), MEGATRON)
    assert len(found) > 30
    assert np.median(np.abs(found - 1)) < 1 / 3


BRIDGE = """source_repo,section,system,n_gpus,precision,gbs,mbs,sequence_length,tp,pp,cp,vp,ep,fsdp
NVIDIA-NeMo/Megatron-Bridge,Pre-Training > Model: Qwen3_30B_a3B,DGX-H100,16,FP8,1024,1,4096,1,1,1,n/a,16,
NVIDIA-NeMo/Megatron-Bridge,Pre-Training > Model: LLAMA3.1_405B,DGX-H100,1024,FP8,1536,1,8192,8,8,2,8,n/a,
NVIDIA-NeMo/Megatron-Bridge,LoRA > Model: LLAMA3_70B,DGX-GB200,8,MXFP8,32,1,4096,1,4,1,20,n/a,
"""


def test_a_published_table_s_degrees_and_adapters_are_understood(tmp_path):
    table = tmp_path / "bridge.csv"
    table.write_text(BRIDGE)
    plans = [plan_of(row, "megatron", lambda name: model_from(name)[1]) for row in read_table(table)]
    degrees = [(plan.sharding.dp, plan.sharding.cp, plan.sharding.ep, plan.sharding.zero) for plan in plans]
    assert degrees == [(16, 1, 16, 1), (8, 2, 1, 1), (2, 1, 1, 1)]
    assert [plan.adapters for plan in plans] == [None, None, Adapters(16, (ALL_LINEAR,))]
