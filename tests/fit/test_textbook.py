"""The textbook's lines beside a forecast: against formulas worked out by hand."""

import json

import pytest
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.commands.fit.command import fit
from diagnose.commands.fit.part_classes import PART_CLASSES, seconds_by_term
from diagnose.commands.fit.planning import best_step
from diagnose.formulas.mfu_words import mfu_scale

LLAMA_1B = 1235814400


def told(options):
    done = CliRunner().invoke(main, ["fit", *f"--gpu H100 {options}".split()])
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


def answer(options):
    done = CliRunner().invoke(main, ["fit", *f"--gpu H100 {options} --json".split()])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_replicas_reduce_all_gradients_in_a_ring():
    book = answer("--model 1b --gpus 8 --dp 8 --micro-batch 1")["textbook"]
    (ring,) = book["collectives"]
    assert [ring["kind"], ring["formula"], ring["ranks"], ring["times"]] == ["all-reduce", "2(N-1)/N x S", 8, 1]
    assert ring["message_bytes"] == pytest.approx(4 * LLAMA_1B)
    assert ring["wire_bytes"] == pytest.approx(2 * 7 / 8 * 4 * LLAMA_1B)
    assert "all-reduce of gradients: 2(N-1)/N x S = 8.65 GB sent by each of N = 8 ranks, S = 4.94 GB" in told(
        "--model 1b --gpus 8 --dp 8 --micro-batch 1"
    )


def test_shards_scatter_gradients_and_gather_weights_in_each_micro_batch():
    book = answer("--model 1b --gpus 8 --dp 8 --fsdp full-shard --micro-batch 1 --accumulation 3")["textbook"]
    assert [(each["kind"], each["times"]) for each in book["collectives"]] == [("reduce-scatter", 3), ("all-gather", 6)]
    assert book["collectives"][1]["wire_bytes"] == pytest.approx(7 / 8 * 2 * LLAMA_1B)


def test_one_gpu_has_no_collective():
    assert answer("--model 1b --micro-batch 1")["textbook"]["collectives"] == []


def test_the_ridge_point_is_peak_over_bandwidth():
    book = answer("--model 1b --micro-batch 4")["textbook"]
    assert book["ridge_flops_per_byte"] == pytest.approx(989.5 / 3.352, rel=0.01)


def test_a_larger_micro_batch_raises_the_intensity():
    small, large = (answer(f"--model 1b --micro-batch {size}")["textbook"]["flops_per_byte"] for size in (1, 8))
    assert small < large


def test_terms_of_the_iron_law_add_up_to_the_step():
    made = answer("--model 1b --gpus 8 --dp 8 --micro-batch 1")
    assert sum(made["textbook"]["terms_s"].values()) == pytest.approx(made["step"]["seconds"])
    assert set(made["textbook"]["terms_s"]) == {"D/BW", "O/(R·eta)", "L"}


def test_eager_attention_is_traffic_and_a_fused_one_arithmetic():
    given = {option.name: None for option in fit.params} | {"model": "1b", "gpu": "H100", "optimizer": "adamw"}
    eager, fused = (
        seconds_by_term(best_step({**given, "attn": attention, "micro_batch": 2, "fp8": False, "gpus": 1}))
        for attention in ("eager", "sdpa")
    )
    assert eager["D/BW"] > 2 * fused["D/BW"]
    assert eager["O/(R·eta)"] < fused["O/(R·eta)"]


def test_each_change_moves_the_term_that_a_textbook_says():
    moves = {move["change"]: move for move in answer("--model 1b --attn eager --micro-batch 2")["textbook"]["moves"]}
    assert moves["Liger kernels"]["term"] == "D/BW"
    assert moves["Liger kernels"]["term_s"] < 0
    assert moves["full activation checkpointing"]["term"] == "O/(R·eta)"
    assert moves["full activation checkpointing"]["term_s"] > 0


@pytest.mark.parametrize(
    "options",
    [
        "--model 8b --gpus 16 --tp 2 --pp 2 --micro-batch 1",
        "--model qwen3-30b-a3b --gpus 8 --dp 8 --ep 8 --zero 1 --stack megatron --micro-batch 1",
        "--model qwen3-30b-a3b --gpus 8 --dp 8 --experts loop --micro-batch 1",
        "--model 8b --gpus 8 --dp 4 --cp 2 --stack megatron --micro-batch 1",
        "--model 8b --lora-rank 8 --qlora --micro-batch 1",
    ],
)
def test_every_part_of_a_step_has_a_class(options):
    assert set(answer(options)["step"]["parts_s"]) <= set(PART_CLASSES)


def test_what_is_usual_is_spelled_from_the_table_of_words():
    assert mfu_scale() == "30-50 % is usual, 55-65 % is the practical ceiling"
    assert mfu_scale() in told("--model 1b --micro-batch 4")
