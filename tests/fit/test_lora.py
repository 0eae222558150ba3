"""Adapters on frozen weights: what they hold, what they spare and what they cost."""

import json

import pytest
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.mfu_as import counted_flops_per_token
from diagnose.commands.fit.stacks import stack_of
from diagnose.commands.fit.step_time import predict_step
from diagnose.formulas.named_models import NAMED_MODELS
from diagnose.predict.memory.adapters import ALL_LINEAR, Adapters, trained_parameters
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.job import JobPlan, Sharding

LLAMA, TRANSFORMERS = NAMED_MODELS["Llama-3.1-8B"], stack_of("transformers")
EVERYWHERE = Adapters(16, (ALL_LINEAR,))


def job(adapters=EVERYWHERE, gpus=1, zero=0, **more):
    given = {"seq_len": 1024, "micro_batch": 4, "dtype": "bf16"} | more
    sharding = Sharding(gpus, zero=zero)
    return JobPlan("8b", LLAMA, gpu_named("H100"), gpus, sharding=sharding, adapters=adapters, **given)


def test_adapters_have_as_many_parameters_as_peft_counts():
    assert trained_parameters(LLAMA, EVERYWHERE) == 41_943_040
    assert trained_parameters(LLAMA, Adapters(8)) == 3_407_872  # q_proj and v_proj, peft's default
    assert trained_parameters(LLAMA, None) == LLAMA.parameters


def test_frozen_weights_have_neither_gradients_nor_states():
    held = memory_estimate(job())
    trained = 41_943_040
    assert held.bytes_of("gradients") == trained * 4
    assert held.bytes_of("optimizer states") == trained * 8
    assert held.bytes_of("weights") == LLAMA.parameters * 2 + trained * 4


def test_in_four_bits_the_matrices_of_the_blocks_shrink_and_the_tables_stay():
    blocks = LLAMA.layers * (LLAMA.attention_weights + LLAMA.feed_forward_weights(0))
    whole, quantized = (
        memory_estimate(job(each)).bytes_of("weights")
        for each in (EVERYWHERE, Adapters(16, (ALL_LINEAR,), quantized=True))
    )
    assert whole - quantized == pytest.approx(blocks * (2 - 0.516), rel=0.001)


def test_frozen_products_take_two_thirds_and_adapters_take_time_of_their_own():
    plain, adapted = (predict_step(job(each), TRANSFORMERS).parts for each in (None, EVERYWHERE))
    assert adapted["matrix products"] == pytest.approx(plain["matrix products"] * 4 / 6)
    assert adapted["adapters"] > 0.1 * adapted["matrix products"]
    assert adapted["optimizer"] < 0.02 * plain["optimizer"]


def test_gradients_of_adapters_alone_are_reduced():
    plain, adapted = (predict_step(job(each, 8), TRANSFORMERS).parts for each in (None, EVERYWHERE))
    assert adapted["data-parallel transfers"] < 0.1 * plain["data-parallel transfers"]


def test_wrapping_each_adapter_makes_sharding_slower_than_copies():
    copies, shards = (predict_step(job(gpus=8, zero=zero), TRANSFORMERS) for zero in (0, 3))
    assert shards.step_s > 1.5 * copies.step_s


def test_a_published_run_is_within_a_tenth_and_gains_from_liger_what_it_gained():
    # 8B, rank 16, 4 x 1024 tokens on one H100: 9,621 tokens/s, 10,115 with Liger
    plain, liger = (predict_step(job(liger=on), TRANSFORMERS).tokens_per_s for on in (False, True))
    assert plain == pytest.approx(9621, rel=0.1)
    assert liger / plain == pytest.approx(10115 / 9621, abs=0.03)


def test_model_flops_count_four_for_a_frozen_weight():
    whole, adapted = (counted_flops_per_token(job(each), "palm") for each in (None, EVERYWHERE))
    assert whole - adapted == pytest.approx(2 * LLAMA.matmul_parameters - 6 * 41_943_040)


def test_the_rate_says_how_frozen_weights_count():
    options = "--model 8b --gpu H100 --dtype bf16 --seq-len 1024 --lora-rank 16"
    done = CliRunner().invoke(main, ["fit", *options.split()])
    assert "4 FLOPs for each frozen weight" in " ".join(done.output.split())


def test_the_command_tells_of_adapters_and_that_no_such_row_was_measured():
    options = "--model 8b --gpu H100 --dtype bf16 --seq-len 1024 --lora-rank 16 --lora-targets all-linear --json"
    done = CliRunner().invoke(main, ["fit", *options.split()])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    assert answer["plan"]["adapters"] == {"rank": 16, "targets": ["all-linear"], "quantized": False}
    assert answer["step"]["range_because"].startswith("not calibrated")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--lora-rank 8 --lora-targets fc1", "use all-linear, or some of q_proj, k_proj"),
        ("--lora-targets q_proj", "--lora-rank"),
        ("--qlora", "--lora-rank"),
    ],
)
def test_adapters_of_nothing_are_refused(options, says):
    done = CliRunner().invoke(main, ["fit", "--model", "8b", "--gpu", "H100", *options.split()])
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())
