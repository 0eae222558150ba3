"""Attention that writes its scores is told by the chain of its operators, whatever its length and head size.

The traces in `attention/` are those that `attention_jobs.py` leaves, with torch 2.13 and transformers 5.23.
"""

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from analysed import ADD, GEMM, SOFTMAX, facts
from kineto import Trace
from profiled_jobs import traced

from diagnose import analyze

JOBS = Path(__file__).with_name("attention_jobs.py")
KEPT = Path(__file__).with_name("attention")
EAGER = [
    "bert",
    "bert-of-16-tokens",
    "bert-training",
    "einsum",
    "gpt-oss",
    "gpt2-training",
    "large-heads",
    "llama-training",
    "mixtral",
    "one-head",
    "swin",
    "t5",
    "vit",
]
FUSED = ["classifier", "fused", "pooled", "router"]
BETWEEN_OPERATORS = 0.15  # of the range's time: what runs in it before the first product and behind the last


def share_of(path: Path) -> float:
    found = {fact.name: fact.value for fact in analyze(path).diagnosis.facts}["eager_attention_share"]
    assert isinstance(found, float)
    return found


def told(path: Path) -> float:
    """The share of the operators in the ranges named "attention", and in the gradients of what ran there."""
    events = [event for event in document(path)["traceEvents"] if event.get("ph") == "X"]
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    steps = [event for event in events if event["name"].startswith("ProfilerStep#")][1:]
    ranges = [event for event in events if event["name"] == "attention" and event["cat"] == "user_annotation"]
    inside = [each for each in operators if any(holds(range_, each) for range_ in ranges)]
    forward = {each["args"]["Sequence number"] for each in inside if "Sequence number" in each["args"]}
    gradients = [each for each in operators if is_gradient(each) and each["args"].get("Sequence number") in forward]
    inside += [each for each in operators if any(holds(gradient, each) for gradient in gradients)]
    return sum(covered(inside, step) for step in steps) / sum(step["dur"] for step in steps)


def document(path: Path) -> Mapping[str, Any]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(text)  # type: ignore[no-any-return]


def is_gradient(event: Mapping[str, Any]) -> bool:
    return str(event["name"]).startswith("autograd::engine::evaluate_function")


def holds(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> bool:
    begins = outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    return bool(begins and outer["tid"] == inner["tid"] and not inner["name"].startswith("autograd::engine"))


def covered(events: list[Mapping[str, Any]], step: Mapping[str, Any]) -> float:
    """Microseconds of the step in which one of the events runs."""
    reached, total = step["ts"], 0.0
    for event in sorted(events, key=lambda each: each["ts"]):
        end = min(event["ts"] + event["dur"], step["ts"] + step["dur"])
        total += max(end - max(event["ts"], reached), 0.0)
        reached = max(reached, end)
    return total


@pytest.mark.parametrize("job", EAGER)
def test_the_share_of_eager_attention_is_that_of_its_range(job: str) -> None:
    path = KEPT / f"{job}.json.gz"

    assert share_of(path) == pytest.approx(told(path), rel=BETWEEN_OPERATORS)


@pytest.mark.parametrize("job", FUSED)
def test_no_other_softmax_is_attention(job: str) -> None:
    assert share_of(KEPT / f"{job}.json.gz") == 0


def test_biases_by_distance_are_added_by_the_product_itself() -> None:
    assert share_of(KEPT / "bloom.json.gz") > 0


@pytest.mark.slow
@pytest.mark.capture
def test_the_models_of_the_installed_transformers_are_told_alike(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    shutil.copy(JOBS, tmp_path)

    folder = traced(JOBS, tmp_path)

    for job in EAGER:
        path = folder / f"{job}.json"
        assert share_of(path) == pytest.approx(told(path), rel=BETWEEN_OPERATORS), job
    assert {job: share_of(folder / f"{job}.json") for job in FUSED} == dict.fromkeys(FUSED, 0.0)


# -- on a GPU: the kernels of the operators -------------------------------------------------------------------------

QUERY, KEY = [4, 16, 32], [4, 32, 16]
SHORT = [
    ("aten::bmm", [QUERY, KEY], GEMM, 10),
    ("aten::div", [[1, 4, 16, 16], []], ADD, 20),
    ("aten::masked_fill_", [[1, 4, 16, 16], [16, 16]], ADD, 20),
    ("aten::_softmax", [[1, 4, 16, 16], [], []], SOFTMAX, 30),
    ("aten::native_dropout", [[1, 4, 16, 16], []], ADD, 10),
    ("aten::bmm", [[4, 16, 16], [4, 16, 32]], GEMM, 10),
]
CROSS = [
    ("aten::baddbmm", [[8, 5, 77], [8, 5, 64], [8, 64, 77]], GEMM, 40),
    ("aten::_softmax", [[2, 4, 5, 77], [], []], SOFTMAX, 40),
    ("aten::bmm", [[8, 5, 77], [8, 77, 64]], GEMM, 20),
]
WITH_SINK = [
    ("aten::bmm", [QUERY, KEY], GEMM, 40),
    ("aten::cat", [[[1, 4, 16, 16], [1, 4, 16, 1]]], ADD, 10),
    ("aten::_softmax", [[1, 4, 16, 17], [], []], SOFTMAX, 30),
    ("aten::bmm", [[4, 16, 16], [4, 16, 32]], GEMM, 20),
]
BACKWARD = [
    ("aten::bmm", [[4, 16, 16], [4, 16, 32]], GEMM, 10),
    ("aten::bmm", [[4, 16, 32], [4, 32, 16]], GEMM, 10),
    ("aten::_softmax_backward_data", [[1, 4, 16, 16], [1, 4, 16, 16], [], []], SOFTMAX, 50),
    ("aten::div", [[1, 4, 16, 16], []], ADD, 10),
    ("aten::bmm", [[4, 32, 16], [4, 16, 16]], GEMM, 10),
    ("aten::bmm", [[4, 16, 16], [4, 16, 32]], GEMM, 10),
]
ROUTER = [
    ("aten::bmm", [[4, 16, 16], [4, 16, 32]], GEMM, 100),
    ("aten::mm", [[64, 128], [128, 8]], GEMM, 10),
    ("aten::_softmax", [[64, 8], [], []], SOFTMAX, 30),
    ("aten::bmm", [[64, 1, 8], [64, 8, 128]], GEMM, 60),
]
CLASSIFIER = [
    ("aten::addmm", [[10], [256, 64], [64, 10]], GEMM, 70),
    ("aten::_softmax", [[256, 10], [], []], SOFTMAX, 60),
    ("aten::mm", [[256, 10], [10, 4]], GEMM, 70),
]
ELSE = [("aten::mm", [[64, 128], [128, 512]], GEMM, 100), ("aten::native_layer_norm", [[64, 128]], ADD, 100)]


def built(*operators: Any) -> Trace:
    job = Trace()
    for _ in range(2):
        with job.step():
            for name, dims, kernel, us in (*ELSE, *operators, *ELSE):
                job.op(name, dims, kernel, us)
    return job


def microseconds(job: Trace) -> float:
    found = facts(job)
    return float(found["eager_attention_share"].value) * float(found["step_time_ns"].value) / 1000  # type: ignore[arg-type]


@pytest.mark.parametrize("chain", [SHORT, CROSS, WITH_SINK, BACKWARD], ids=["short", "cross", "sink", "backward"])
def test_the_kernels_of_a_chain_are_attention_with_sizes_and_without(chain: Any) -> None:
    unsized = [(name, None, kernel, us) for name, _, kernel, us in chain]

    assert microseconds(built(*chain)) == pytest.approx(100, rel=0.02)
    assert microseconds(built(*unsized)) == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize("operators", [ROUTER, CLASSIFIER], ids=["router", "classifier"])
def test_the_kernels_of_a_router_or_a_classifier_are_none_with_sizes_and_without(operators: Any) -> None:
    unsized = [(name, None, kernel, us) for name, _, kernel, us in operators]

    assert microseconds(built(*operators)) == 0
    assert microseconds(built(*unsized)) == 0


def test_a_softmax_takes_no_product_of_another_thread() -> None:
    job = Trace()
    for _ in range(2):
        with job.step():
            for name, dims, kernel, us in SHORT[:4]:
                job.op(name, dims, kernel, us)
            with job.thread(2):
                job.op(*SHORT[5])
            job.op("aten::mm", [[64, 128], [128, 512]], GEMM, 100)

    assert microseconds(job) == 0


def test_copies_that_lay_out_the_heads_anew_are_part_of_the_chain() -> None:
    laid_out = ("aten::copy_", [[1, 16, 4, 32], [1, 16, 4, 32]], ADD, 25)
    others = ("aten::copy_", [[64, 128], [64, 128]], ADD, 25)

    assert microseconds(built(laid_out, *SHORT, laid_out)) == pytest.approx(150, rel=0.02)
    assert microseconds(built(laid_out, ELSE[0], *SHORT, ELSE[0], others)) == pytest.approx(100, rel=0.02)
