"""MFU and the waterfall of whole traces: which FLOPs, of which tokens, and where the rest of the step went."""

import json
from pathlib import Path
from typing import Any

import pytest
from analysed import ADD, GEMM
from kineto import Trace
from kineto_rows import GPUS

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis
from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_flops import Convention, flops_per_token
from diagnose.report.views.words import mfu_details, mfu_line

H100 = 989.4e12
CONFIG = {
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "tie_word_embeddings": True,
}
LLAMA = ModelShape.from_config("llama", CONFIG)
assert LLAMA is not None
TOKENS = 8 * 512


def record(**changes: Any) -> dict[str, Any]:
    model = {"model_type": "llama", "class": "LlamaForCausalLM", "config": CONFIG}
    model |= {"parameters": LLAMA.parameters, "trainable": LLAMA.parameters, "gradient_checkpointing": False}
    batch = {"tokens": TOKENS, "shapes": {"input_ids": [8, 512]}}
    found = {"model": model, "batch": batch, "training_arguments": {"gradient_accumulation_steps": 1}}
    return {key: found.get(key, {}) | changes.get(key, {}) for key in found | changes}


def run(
    folder: Path, job: Trace | None = None, capture: dict[str, Any] | None = None, **stated: float | str
) -> Diagnosis:
    (job or steps()).write(folder / "rank0.json.gz")
    if capture is not None:
        (folder / "capture-rank0.json").write_text(json.dumps(capture))
    return analyze(folder, options=Options(**stated))


def steps(embedding: list[int] | None = None, product: int = 2048) -> Trace:
    """Three steps of 20 ms: one large product, one product that is also the head, one elementwise kernel."""
    job = Trace()
    for _ in range(3):
        with job.step():
            if embedding:
                job.op("aten::embedding", [[32000, 1024], embedding], "indexSelectLargeIndex", 100)
            job.op("aten::mm", [[product, 1024], [1024, 32000]], GEMM, 9_000)
            job.op("aten::mul", [[2048, 1024], [2048, 1024]], ADD, 900)
            job.sync()
            job.host(9_000)
    return job


def palm(tokens: float = TOKENS) -> float:
    return flops_per_token(LLAMA, 512) * tokens


def test_recorded_sizes_give_every_convention_with_palm_declared(tmp_path: Path) -> None:
    found = run(tmp_path, capture=record())
    step_s = found.steps.device_time_ns / found.steps.count / 1e9

    assert [c.name for c in found.mfu.conventions] == ["palm", "causal", "6n", "6n-attention", "hf", "operators"]
    assert found.mfu.model_flops_per_step == pytest.approx(palm())
    assert found.mfu.value == pytest.approx(palm() / (H100 * step_s))
    assert found.mfu.tokens_per_s == pytest.approx(TOKENS / step_s)


def test_tokens_of_the_embedding_lookup_beat_the_record(tmp_path: Path) -> None:
    found = run(tmp_path, steps(embedding=[2, 512]), record())

    assert found.mfu.tokens_per_step == 1024
    assert found.mfu.model_flops_per_step == pytest.approx(palm(1024))


def test_an_embedding_that_is_no_vocabulary_counts_no_tokens(tmp_path: Path) -> None:
    job = steps()
    with job.step():
        job.op("aten::embedding", [[777_777, 16], [4, 9]], "indexSelectLargeIndex", 100)

    assert run(tmp_path, job).mfu.tokens_per_step is None


def test_accumulation_multiplies_the_recorded_tokens(tmp_path: Path) -> None:
    found = run(tmp_path, capture=record(training_arguments={"gradient_accumulation_steps": 4}))

    assert found.mfu.tokens_per_step == 4 * TOKENS


def test_frozen_weights_cost_four_flops(tmp_path: Path) -> None:
    trained = 1_000_000
    adapters = {"parameters": LLAMA.parameters + trained, "trainable": trained}
    found = run(tmp_path, capture=record(model=record()["model"] | adapters))

    linear = 4 * LLAMA.matmul_parameters + 6 * trained
    attention = 12 * 4 * 1024 * 512
    assert found.mfu.conventions[0].name == "palm-frozen"
    assert found.mfu.model_flops_per_step == pytest.approx((linear + attention) * TOKENS)


def test_a_configuration_that_does_not_give_the_parameters_is_not_trusted(tmp_path: Path) -> None:
    other = {"parameters": 3 * LLAMA.parameters, "trainable": 3 * LLAMA.parameters}
    found = run(tmp_path, capture=record(model=record()["model"] | other))

    assert [c.name for c in found.mfu.conventions] == ["operators"]


def test_stated_parameters_count_six_flops_for_each_token(tmp_path: Path) -> None:
    found = run(tmp_path, params=1e9, tokens_per_step=1000)

    assert (found.mfu.conventions[0].name, found.mfu.model_flops_per_step) == ("6n", 6e12)


def test_stated_flops_win(tmp_path: Path) -> None:
    found = run(tmp_path, capture=record(), flops_per_step=1e12)

    assert (found.mfu.conventions[0].name, found.mfu.model_flops_per_step) == ("given", 1e12)


@pytest.mark.parametrize(("whose", "counted"), [("megatron", "causal"), ("nanotron", "6n-attention"), ("hf", "hf")])
def test_mfu_is_counted_as_the_project_that_the_user_names(tmp_path: Path, whose: str, counted: Convention) -> None:
    found = run(tmp_path, capture=record(), mfu_as=whose)

    assert (found.mfu.conventions[0].name, found.mfu.unused_option) == (counted, "")
    assert found.mfu.model_flops_per_step == pytest.approx(flops_per_token(LLAMA, 512, counted) * TOKENS)
    assert sum(part.points for part in found.waterfall) == pytest.approx(100)


def test_the_details_name_whose_count_each_figure_is(tmp_path: Path) -> None:
    mfu = run(tmp_path, capture=record(), mfu_as="nanotron").mfu

    assert mfu_line(mfu).endswith("FLOPs by nanotron's and llm-foundry's count")
    by_convention = mfu_details(mfu)[0]
    assert by_convention.startswith("MFU by convention: nanotron and llm-foundry ")
    assert ", Megatron (causal) " in by_convention
    assert ", transformers " in by_convention


def test_a_count_that_cannot_be_made_is_said_to_be_unused(tmp_path: Path) -> None:
    (tmp_path / "unrecorded").mkdir()
    unrecorded = run(tmp_path / "unrecorded", mfu_as="megatron").mfu
    stated = run(tmp_path, capture=record(), mfu_as="megatron", flops_per_step=1e12).mfu

    assert unrecorded.unused_option == (
        "--mfu-as megatron is not used: the sizes of the model or its tokens are not known"
    )
    assert stated.unused_option == "--mfu-as megatron is not used: the FLOPs are stated"


def test_padding_is_a_part_of_mfu_and_not_of_goodput(tmp_path: Path) -> None:
    found = run(tmp_path, capture=record(batch=record()["batch"] | {"padding_share": 0.25}))
    points = {p.part: p.points for p in found.waterfall}

    assert found.mfu.value is not None
    assert points["model-flops"] == pytest.approx(75 * found.mfu.value, rel=1e-6)
    assert points["padding"] == pytest.approx(25 * found.mfu.value, rel=1e-6)
    assert found.mfu.goodput_value == pytest.approx(0.75 * found.mfu.value)


def test_flops_beyond_the_model_are_recomputation(tmp_path: Path) -> None:
    capture = record(batch={"tokens": 100.0, "shapes": {"input_ids": [1, 100]}})
    found = run(tmp_path, capture=capture)
    executed = 2 * 2048 * 1024 * 32000

    again = (executed - found.mfu.model_flops_per_step) / H100 * 1e9 * found.steps.count
    assert {p.part: p.ns for p in found.waterfall}["recompute"] == pytest.approx(again, rel=1e-5)
    assert "the operators that ran count" in found.mfu.check


def test_agreement_within_five_percent_needs_no_reason(tmp_path: Path) -> None:
    tokens = 2 * 2048 * 1024 * 32000 / flops_per_token(LLAMA, 512)
    found = run(tmp_path, capture=record(batch={"tokens": tokens, "shapes": {"input_ids": [1, 512]}}))

    assert found.mfu.check == "the operators that ran count 1.00x of it"


def test_mfu_is_also_against_the_precision_that_ran(tmp_path: Path) -> None:
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", [[4096, 4096], [4096, 4096]], "sm80_xmma_gemm_tf32f32_tf32f32_f32_tn_n_tilesize", 900)
    found = run(tmp_path, job)
    points = {p.part: p.points for p in found.waterfall}

    assert found.mfu.own_precision == "tf32"
    assert found.mfu.own_value == pytest.approx(2 * found.mfu.value)
    assert points["lower-precision"] == pytest.approx(points["model-flops"], rel=1e-6)


def test_the_waterfall_adds_up_to_the_step_and_to_a_hundred(tmp_path: Path) -> None:
    found = run(tmp_path, capture=record())

    assert sum(p.ns for p in found.waterfall) == sum(e.ns for e in found.ledger) == found.steps.device_time_ns
    assert sum(p.points for p in found.waterfall) == pytest.approx(100)


def test_without_a_numerator_the_matrix_kernels_stay_whole(tmp_path: Path) -> None:
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", None, GEMM, 900)
    found = run(tmp_path, job)

    assert found.mfu.value is None
    assert "gemm" in {p.part for p in found.waterfall}


def test_options_that_the_reason_does_not_name_stand_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GPUS, "NVIDIA PG506-230", (1 << 35, 8, 0, 108))
    job = Trace(gpu="NVIDIA PG506-230")
    for _ in range(3):
        with job.step():
            job.op("aten::mm", None, GEMM, 900)

    mfu = run(tmp_path, job).mfu

    assert mfu.reason.endswith("pass --peak-tflops and --hbm-gbs")
    assert mfu.or_pass == ("--flops-per-step",)


def test_parameters_without_tokens_are_an_option_that_is_not_used(tmp_path: Path) -> None:
    mfu = run(tmp_path, params=1e9).mfu

    assert mfu.unused_option.startswith("--params is not used")
    assert not mfu.check


def test_what_runs_again_in_the_backward_pass_is_no_model_flop(tmp_path: Path) -> None:
    """One product forward, the same again, and one of the gradient: a third of what ran is recomputation."""
    mfu = run(tmp_path, checkpointed()).mfu

    assert mfu.executed_value == pytest.approx(1.5 * (mfu.value or 0))
    assert mfu.model_flops_per_step == 2 * 2 * 4096**3
    assert mfu_line(mfu).endswith("FLOPs of the operators that ran once, recomputation left out")


def test_recomputation_that_no_operator_shows_leaves_no_numerator(tmp_path: Path) -> None:
    shown, hidden = tmp_path / "shown", tmp_path / "hidden"
    shown.mkdir(), hidden.mkdir()
    capture = {"model": {"gradient_checkpointing": True}}

    assert run(shown, checkpointed(), capture).mfu.value is not None
    assert run(hidden, capture=capture).mfu.reason.startswith("activations are computed again")


def checkpointed() -> Trace:
    square = [[4096, 4096], [4096, 4096]]
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", square, GEMM, 300)
            with job.backward("autograd::engine::evaluate_function: CheckpointFunctionBackward"):
                job.op("aten::mm", square, GEMM, 300)
                with job.inside("autograd::engine::evaluate_function: MmBackward0"):
                    job.op("aten::mm", square, GEMM, 300)
    return job


def test_more_than_the_half_precision_peak_is_possible_in_fp8(tmp_path: Path) -> None:
    """70 % of the fp8 peak is 140 % of that in bf16; as a share of the peak that ran it is stated."""
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::_scaled_mm", [[16384, 16384]] * 2, "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n", 6350)
    (tmp_path / "half").mkdir()
    reason = run(tmp_path / "half", job).mfu.reason

    assert reason.startswith("140 % of the bf16 peak: most of the FLOPs ran in fp8, of whose peak it is 70 %")
    assert run(tmp_path, job, peak_tflops=1979).mfu.value == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize("dims", [[[2048], [2048]], None])
def test_replayed_kernels_have_no_operators_that_another_capture_would_size(
    tmp_path: Path, dims: list[list[int]] | None
) -> None:
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::copy_", dims, ADD, 10)
            job.launch(GEMM, 900)
            job._events[-2]["name"] = "cudaGraphLaunch"
    mfu = run(tmp_path, job).mfu

    assert mfu.reason.startswith("CUDA graphs replay 99 % of the kernel time, and no operator is called then")
    assert "record_shapes" not in mfu.reason or "without CUDA graphs" in mfu.reason
    assert "--flops-per-step" in (*mfu.or_pass, *mfu.reason.split())


def test_a_model_that_no_formula_counts_is_named_where_its_flops_are_asked_for(tmp_path: Path) -> None:
    hybrid = CONFIG | {"linear_num_value_heads": 32}
    mfu = run(tmp_path, capture=record(model={"model_type": "qwen3_next", "config": hybrid}), mfu_as="megatron").mfu

    why = "a model of type qwen3_next has linear-attention layers, which no formula counts"
    assert mfu.conventions[0].name == "operators"
    assert mfu.unused_option == f"--mfu-as megatron is not used: {why}"


def test_without_shapes_the_reason_names_the_model_and_both_ways_out(tmp_path: Path) -> None:
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", None, GEMM, 9_000)
            job.sync()

    line = mfu_line(run(tmp_path, job, record(model={"model_type": "t5", "config": {"is_encoder_decoder": True}})).mfu)

    assert "a model of type t5 has an encoder and a decoder, which no formula counts, and operator shapes" in line
    assert "record_shapes=True" in line
    assert "--flops-per-step" in line
