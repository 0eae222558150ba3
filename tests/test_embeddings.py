"""Embedding tables: what lookups take, how many rows they touch, and what is a vocabulary."""

import json
from pathlib import Path

import pytest
from analysed import GEMM
from embedding_jobs import FILL, GATHER, Work
from faulty_traces import steps
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, FactReport

ROWS = 50_257


def facts_of(folder: Path, work: Work, record: dict[str, object] | None = None) -> dict[str, FactReport]:
    return {fact.name: fact for fact in answer(folder, work, record).facts}


def answer(folder: Path, work: Work, record: dict[str, object] | None = None) -> Diagnosis:
    steps(work).write(folder / "rank0.json")
    if record:
        (folder / "capture-rank0.json").write_text(json.dumps(record))
    return analyze(folder)


def language_model(job: Trace) -> None:
    """2,048 tokens of a vocabulary that the head multiplies with, and its dense gradient."""
    job.op("aten::embedding", [[ROWS, 768], [2, 1024]], GATHER, 20)
    job.op("aten::mm", [[2048, 768], [768, ROWS]], GEMM, 400)
    job.op("aten::mm", [[2048, ROWS], [ROWS, 768]], GEMM, 400)
    with job.inside("aten::embedding_dense_backward", [[2048, 768], [2048]]):
        job.op("aten::zero_", [[ROWS, 768]], FILL, 500)


def test_a_vocabulary_with_a_head_is_not_told_to_be_sparse(tmp_path: Path) -> None:
    found = answer(tmp_path, language_model)

    facts = {fact.name: fact.value for fact in found.facts}
    assert facts["embeds_vocabulary"] is True
    assert facts["touched_rows_share"] == 2048 / ROWS
    assert "dense-embedding-gradients" not in {finding.rule for finding in found.findings}
    assert any("a language model's vocabulary" in each.because for each in found.not_advised)


def test_fused_tables_are_no_lookups_one_by_one(tmp_path: Path) -> None:
    def torchrec(job: Trace) -> None:
        for _ in range(10):
            job.op("fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function", None, GATHER, 100)

    found = answer(tmp_path, torchrec)

    facts = {fact.name: fact.value for fact in found.facts}
    assert facts["embeddings_are_fused"] is True
    assert isinstance(facts["embedding_share"], float)
    assert facts["embedding_share"] > 0.3
    assert "EmbeddingBagCollection" in {each.what for each in found.not_advised}


def test_without_recorded_sizes_the_rows_are_unknown(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, lambda job: job.op("aten::embedding", None, GATHER, 20))

    assert facts["touched_rows_share"].because == "the sizes of the embedding tables are not recorded"
    assert facts["embeds_vocabulary"].value is None


def test_without_a_lookup_there_are_no_rows(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, lambda job: job.op("aten::mm", [[64, 64]] * 2, GEMM, 20))

    assert facts["embedding_lookups_per_step"].value == facts["embedding_share"].value == 0
    assert facts["touched_rows_share"].because == "no embedding is looked up in the counted steps"


def test_tables_and_head_are_a_share_of_the_parameters(tmp_path: Path) -> None:
    config = {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
        "vocab_size": 32_000, "tie_word_embeddings": False,
    }  # fmt: skip
    model = {"model_type": "llama", "class": "LlamaForCausalLM", "config": config}

    share = facts_of(tmp_path, language_model, {"model": model})["vocabulary_parameter_share"].value

    matrices, norms = 2 * (4 * 64 * 64 + 3 * 64 * 256), 5 * 64
    assert share == 2 * 32_000 * 64 / (2 * 32_000 * 64 + matrices + norms)


def on_a_cpu(folder: Path, parameters: int | None) -> Diagnosis:
    """Steps of 10 ms: 100 rows of 10,000 are looked up, the dense gradient takes 2 ms and the optimizer 6."""
    job = Trace(gpu=None)
    for _ in range(5):
        with job.step():
            job.cpu_op("aten::embedding", 1000, [[10_000, 64], [100]])
            job.cpu_op("aten::mm", 1000, [[64, 64], [64, 64]])
            job.cpu_op("aten::embedding_dense_backward", 2000, [[100, 64], [100]])
            with job.optimizer("Adagrad"):
                job.cpu_op("aten::addcdiv_", 6000, [[10_000, 64]] * 3)
    model = {} if parameters is None else {"model": {"parameters": parameters}}
    return analysed(folder, job, {"versions": {"torch": "2.13.0"}, **model})


def test_on_a_cpu_the_optimizer_of_rows_that_nothing_reads_goes_with_the_dense_gradients(tmp_path: Path) -> None:
    found = on_a_cpu(tmp_path, parameters=2 * 10_000 * 64)
    finding = next(each for each in found.findings if each.rule == "dense-embedding-gradients")

    facts = {fact.name: fact.value for fact in found.facts}
    removed = 0.2 + 0.6 * 0.5 * 0.99
    stays = 0.1 + 10 * 0.01  # of it at worst: a hundredth of the rows is touched
    assert facts["dense_embedding_gradient_share"] == pytest.approx(0.2, abs=0.01)
    assert facts["untouched_rows_update_share"] == pytest.approx(0.6 * 0.5 * 0.99, abs=0.01)
    cases = (1 / (1 - removed * (1 - stays)), 10 / (10 * (1 - removed) - 1))  # of 10 ms; a millisecond is cold caches
    assert finding.predicted_speedup == pytest.approx(cases, rel=0.03)
    assert found.next.rule == "dense-embedding-gradients"


def test_without_the_number_of_parameters_only_the_gradients_are_counted(tmp_path: Path) -> None:
    found = on_a_cpu(tmp_path, parameters=None)
    finding = next(each for each in found.findings if each.rule == "dense-embedding-gradients")

    assert {fact.name: fact.value for fact in found.facts}["untouched_rows_update_share"] is None
    assert finding.predicted_speedup == pytest.approx((1 / (1 - 0.2 * 0.8), 1 / (1 - 0.2 - 0.2 / 4)), rel=0.03)
