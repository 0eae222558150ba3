"""Mixtures of experts: what is routed, what runs one by one, and which parameters count."""

from pathlib import Path

import pytest
from analysed import GEMM
from expert_jobs import EXPERT, HIDDEN, LOADS, Work, grouped, one_by_one
from kineto import Trace
from remedies.single_gpu_jobs import analysed, job, product

from diagnose.diagnosis import FactReport, Finding
from diagnose.formulas.model import ModelShape

MIXTRAL = {
    "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 512, "vocab_size": 1000, "num_local_experts": 8, "num_experts_per_tok": 2,
    "tie_word_embeddings": False,
}  # fmt: skip
RECORD = {"model": {"model_type": "mixtral", "class": "MixtralForCausalLM", "config": MIXTRAL}}


def facts_of(folder: Path, *work: Work, record: dict[str, object] | None = None) -> dict[str, FactReport]:
    return {fact.name: fact for fact in analysed(folder, job(product(), *work), record).facts}


def found(folder: Path, *work: Work, record: dict[str, object] | None = None) -> Finding | None:
    findings = analysed(folder, job(product(), *work), record).findings
    return next((finding for finding in findings if finding.rule == "experts-one-by-one"), None)


def test_products_of_single_experts_are_told_by_their_tokens(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, one_by_one())

    assert facts["expert_products_per_step"].value == 8 * len(LOADS)
    assert facts["mean_expert_product_ns"].value == pytest.approx(12_000)
    assert facts["expert_load_factor"].value == pytest.approx(512 * len(LOADS) / sum(LOADS))


def test_a_loop_over_experts_names_grouped_products(tmp_path: Path) -> None:
    bare, transformers = found(tmp_path / "a", one_by_one()), found(tmp_path / "b", one_by_one(), record=RECORD)

    assert bare is not None
    assert "--moe-grouped-gemm of Megatron" in bare.do
    assert transformers is not None
    assert 'experts_implementation="grouped_mm"' in transformers.do


def test_grouped_products_are_no_fault_and_their_loads_are_unknown(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, grouped())

    assert facts["expert_products_per_step"].value == 0
    assert facts["expert_load_factor"].because == "no experts run one by one"


@pytest.mark.parametrize("micro_batches", [1, 8])
def test_a_dense_model_with_batches_of_other_lengths_has_no_experts(tmp_path: Path, micro_batches: int) -> None:
    def dense(trace: Trace) -> None:
        for number in range(micro_batches):
            for _ in range(16):
                trace.op("aten::mm", [[512 + 64 * number, HIDDEN], [HIDDEN, EXPERT]], GEMM, 20)

    assert facts_of(tmp_path, dense)["expert_products_per_step"].value == 0


def test_without_recorded_sizes_it_is_unknown(tmp_path: Path) -> None:
    def unsized(trace: Trace) -> None:
        for _ in range(64):
            trace.op("aten::mm", None, GEMM, 20)

    trace = job(unsized)

    fact = next(f for f in analysed(tmp_path, trace).facts if f.name == "expert_products_per_step")
    assert fact.value is None
    assert fact.because


def test_model_flops_count_the_experts_that_a_token_passes(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, one_by_one(), record=RECORD)

    shape = ModelShape.from_config("mixtral", MIXTRAL, "MixtralForCausalLM")
    assert shape is not None
    passed_by = 2 * 6 * 3 * 256 * 512  # of each of two blocks' eight experts two multiply a token
    assert facts["active_parameter_share"].value == pytest.approx(1 - passed_by / shape.parameters)
    assert (facts["experts"].value, facts["experts_per_token"].value) == (8, 2)
    assert shape.matmul_parameters == shape.active_parameters - shape.vector_parameters - shape.embedding_parameters


def test_routed_experts_of_a_model_of_unknown_sizes_are_counted(tmp_path: Path) -> None:
    config = {"n_routed_experts": 64, "num_experts_per_tok": 6}
    facts = facts_of(tmp_path, one_by_one(), record={"model": {"model_type": "deepseek_v3", "config": config}})

    assert (facts["experts"].value, facts["experts_per_token"].value) == (64, 6)
    assert facts["active_parameter_share"].value is None


def test_gradients_of_a_dense_models_weights_are_no_experts(tmp_path: Path) -> None:
    tokens, hidden, outputs = 512, 1024, (1024, 256, 256, 1024, 2816, 2816)  # of q, k, v, o, gate and up

    def dense(trace: Trace) -> None:
        for _ in range(8):
            for columns in outputs:
                trace.op("aten::mm", [[tokens, hidden], [hidden, columns]], GEMM, 12)
        for _ in range(8):
            for columns in reversed(outputs):
                with trace.backward():
                    trace.op("aten::mm", [[tokens, columns], [columns, hidden]], GEMM, 12)
                    trace.op("aten::mm", [[columns, tokens], [tokens, hidden]], GEMM, 12)

    assert facts_of(tmp_path, dense)["expert_products_per_step"].value == 0


def test_products_for_the_gradients_of_the_experts_inputs_are_of_experts(tmp_path: Path) -> None:
    def backward(trace: Trace) -> None:
        for tokens in LOADS:
            with trace.backward():
                trace.op("aten::mm", [[tokens, EXPERT], [EXPERT, HIDDEN]], GEMM, 12)
                trace.op("aten::mm", [[EXPERT, tokens], [tokens, HIDDEN]], GEMM, 12)

    layers = [part for _ in range(8) for part in (one_by_one(layers=1), backward)]

    assert facts_of(tmp_path, *layers)["expert_products_per_step"].value == 2 * 8 * len(LOADS)
