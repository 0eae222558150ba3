"""Context parallelism: what ranks that share sequences divide, and what it costs."""

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.context import ring_s
from diagnose.commands.fit.launch_stacks import stack_file
from diagnose.commands.fit.stacks import stack_of
from diagnose.commands.fit.step_time import predict_step
from diagnose.formulas.named_models import NAMED_MODELS
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.job import JobPlan, Sharding
from tests.public_tables import public_table

TORCHTITAN = stack_of("torchtitan")


def job(dp=1, cp=1, **more):
    given = {"seq_len": 32768, "checkpointing": "full", "nodes": 1} | more
    model, gpu = NAMED_MODELS["Llama-3.1-8B"], gpu_named("H100")
    return JobPlan("8b", model, gpu, dp * cp, sharding=Sharding(dp, zero=3 if dp * cp > 1 else 0, cp=cp), **given)


def test_ranks_that_share_a_sequence_hold_their_part_of_its_tokens():
    alone, shared = job(dp=8), job(dp=2, cp=4)
    assert alone.micro_batch_tokens == 4 * shared.micro_batch_tokens
    assert memory_estimate(alone).bytes_of("checkpoints") == 4 * memory_estimate(shared).bytes_of("checkpoints")


def test_weights_are_divided_among_all_ranks_that_hold_them():
    assert memory_estimate(job(dp=8)).bytes_of("weights") == memory_estimate(job(dp=2, cp=4)).bytes_of("weights")


def test_as_many_ranks_compute_fewer_sequences_of_a_step_and_as_many_tokens_for_each():
    shared = job(dp=2, cp=4)
    assert (shared.global_batch, shared.tokens_per_step) == (2, 2 * 32768)


def test_keys_and_values_travel_once_forward_and_twice_backward_around_the_ring():
    # three times three hops of 8192 tokens x 8 heads x (128 + 128) elements of 2 bytes
    sent = 3 * 3 * 8192 * 8 * 256 * 2
    assert ring_s(job(cp=4), TORCHTITAN) == pytest.approx(sent / 335e9, rel=0.35)
    assert ring_s(job(cp=4, nodes=4), TORCHTITAN) > ring_s(job(cp=4), TORCHTITAN)


def test_attention_loses_with_each_doubling_of_the_ranks_what_the_stack_was_seen_to_lose():
    one, four = (predict_step(job(cp=cp), TORCHTITAN).parts["attention"] for cp in (1, 4))
    assert 4 * four / one == pytest.approx(1 + 2 * TORCHTITAN.context_slowdown)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--cp 2 --stack nanotron", "nanotron has no context parallelism"),
        ("--cp 2 --attn eager --stack megatron", "context parallelism combines parts of fused attention"),
        ("--cp 8 --seq-len 1000 --stack torchtitan", "16 parts of the same length"),
    ],
)
def test_what_cannot_be_shared_is_refused_with_the_reason(options, says):
    done = CliRunner().invoke(main, ["fit", "--model", "8b", "--gpu", "H100", "--gpus", "8", *options.split()])
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())


def test_the_degree_is_in_what_launches_the_job():
    plan = job(dp=2, cp=4)
    assert "context_parallel_degree = 4" in stack_file(plan, "torchtitan")[1]
    assert "--context-parallel-size 4" in stack_file(plan, "megatron")[1]
    assert "context" not in stack_file(job(dp=8), "torchtitan")[1]


def test_published_runs_with_shared_sequences_are_met_within_a_tenth_in_the_median():
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from fitting.experts import megatron_context, torchtitan_context
    from fitting.rates import ratios

    titan = ratios(list(torchtitan_context(public_table("torchtitan.csv"))), TORCHTITAN)
    bridge = ratios(list(megatron_context(public_table("megatron_bridge.csv"))), stack_of("megatron"))
    assert np.median(np.abs(titan - 1)) < 0.1
    assert np.median(np.abs(bridge - 1)) < 0.1
