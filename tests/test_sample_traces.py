"""Each sample trace holds one known fault, or none: the answer must be that fault, and nothing else loud."""

import gzip
import json
import re
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from over_all import over_all
from read_once import diagnosis_of

from diagnose.diagnosis import Diagnosis
from diagnose.metrics import units
from diagnose.report.views.job_words import waited_share
from diagnose.rule import SEVERITIES, load_rules

FOLDER = Path(__file__).parent.parent / "sample_traces"
EXPECTED = {  # trace: (class, largest cause that is not healthy work, first finding)
    "cpu-healthy.json.gz": ("compute-bound", "operator-compute", None),
    "cpu-slow-loader.json.gz": ("data-bound", "data-wait", "data-wait"),
    "cpu-python-host.json.gz": ("host-bound", "python", "python-host"),
    "gloo-healthy": ("compute-bound", "operator-compute", None),
    "gloo-slow-rank": ("data-bound", "late-rank-data", "straggler"),
    "h200-llama-eager.json.gz": ("memory-bound", "elementwise", "unfused-attention"),
    "h200-small-kernels.json.gz": ("host-bound", "dispatch", "launch-bound"),
    "h200-slow-loader.json.gz": ("data-bound", "data-wait", "data-wait"),
    "h200-copies-to-host.json.gz": ("host-bound", "copy-DtoH", "exposed-copies-to-host"),
    "h200-misaligned-products.json.gz": ("compute-bound", "gemm", "misaligned-products"),
    "h200-uncached-allocations.json.gz": ("host-bound", "dispatch", "uncached-allocations"),
    "synthetic-compute-bound.json.gz": ("compute-bound", "gemm", None),
    "synthetic-memory-bound.json.gz": ("memory-bound", "softmax", "unfused-attention"),
    "synthetic-tiny-kernels.json.gz": ("host-bound", "dispatch", "launch-bound"),
    "synthetic-sync-every-step.json.gz": ("host-bound", "sync", "sync-every-step"),
    "synthetic-communication-bound.json.gz": ("communication-bound", "exposed-communication", "exposed-communication"),
    "synthetic-healthy-8": ("compute-bound", "gemm", None),
    "synthetic-straggler": ("data-bound", "late-rank-data", "straggler"),
}
HEALTHY = [name for name, (_, _, finding) in EXPECTED.items() if finding is None]
WAITING = {"data", "host", "communication", "imbalance"}
STRAGGLERS = {"synthetic-straggler": (5, "data"), "gloo-slow-rank": (1, "data")}
each = pytest.mark.parametrize("name", EXPECTED)


def answer(name: str) -> Diagnosis:
    return diagnosis_of(FOLDER / name)


@cache
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(Diagnosis.schema())
    return jsonschema.Draft202012Validator(Diagnosis.schema())


def share(name: str, *causes: str) -> float:
    return sum(e.share for e in answer(name).ledger if e.cause in causes)


def test_every_sample_trace_is_expected_here() -> None:
    present = {p.name for p in FOLDER.iterdir() if p.name.endswith(".json.gz") or list(p.glob("*.json.gz"))}

    assert present == set(EXPECTED)


@each
def test_the_class(name: str) -> None:
    verdict = answer(name).verdict

    assert verdict.class_ == EXPECTED[name][0], verdict.because


@each
def test_the_cause(name: str) -> None:
    expected = EXPECTED[name]
    own = [e for e in answer(name).ledger if f"{e.class_}-bound" == expected[0]]

    assert max(own, key=lambda e: e.ns).cause == expected[1] or share(name, expected[1]) >= 0.2


@each
def test_the_first_finding(name: str) -> None:
    expected = EXPECTED[name][2]
    if expected is not None:
        assert answer(name).findings[0].rule == expected


@each
def test_the_ledger_adds_up_to_the_steps(name: str) -> None:
    found = answer(name)

    steps = found.steps
    total = steps.time_ns if steps.device_time_ns is None else steps.device_time_ns
    assert sum(e.ns for e in found.ledger) == total
    assert sum(e.ns for rank in found.ranks for e in rank.ledger) == total
    assert sum(e.share for e in found.ledger) == pytest.approx(1)


@pytest.mark.long
@each
def test_the_json_fits_its_schema(name: str) -> None:
    validator().validate(json.loads(answer(name).to_json()))


@each
def test_nothing_is_lost_or_left_unexplained(name: str) -> None:
    found = answer(name)

    assert (found.trace.loss.events, found.trace.loss.bytes, found.trace.loss.truncated) == (0, 0, False)
    assert sum(e.share for e in found.ledger if e.class_ == "unexplained") <= 0.02
    assert share(name, "unclassified-kernel") == 0


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_job_is_left_alone(name: str) -> None:
    found = answer(name)

    assert [f.rule for f in found.findings if f.severity == "critical"] == []
    assert found.stragglers == ()


@pytest.mark.parametrize("name", ["cpu-healthy.json.gz", "synthetic-compute-bound.json.gz", "synthetic-healthy-8"])
def test_a_healthy_job_hears_of_waiting_at_most_in_passing(name: str) -> None:
    loud = [f.rule for f in answer(name).findings if f.class_ in WAITING and f.severity != "info"]
    waiting = {f.rule for f in answer(name).findings if f.class_ in WAITING}
    planned = [p for p in answer(name).plan if p.rule in waiting]
    proposed = [p.rule for p in planned if p.predicted_speedup and (p.predicted_speedup[1] or float("inf")) > 1.05]

    assert (loud, proposed) == ([], [])


@each
def test_only_the_slow_rank_is_named(name: str) -> None:
    found = [(s.rank, s.cause) for s in answer(name).stragglers]

    assert found == ([STRAGGLERS[name]] if name in STRAGGLERS else [])


def test_loading_is_the_measured_part_of_the_step() -> None:
    assert share("cpu-slow-loader.json.gz", "data-wait") == pytest.approx(0.47, abs=0.02)
    assert share("cpu-healthy.json.gz", "data-wait") < 0.01


def test_the_slow_loader_gets_workers() -> None:
    patch = answer("cpu-slow-loader.json.gz").findings[0].patch

    assert patch is not None
    assert 1 <= patch.set["num_workers"] <= 16


def test_what_the_synthetic_traces_were_made_with_is_measured() -> None:
    assert share("synthetic-communication-bound.json.gz", "exposed-communication") == pytest.approx(0.39, abs=0.01)
    assert share("synthetic-sync-every-step.json.gz", "sync") == pytest.approx(0.29, abs=0.01)
    assert share("synthetic-healthy-8", "exposed-communication") == pytest.approx(0.03, abs=0.005)
    found = answer("synthetic-compute-bound.json.gz").mfu.value
    assert found is not None
    assert 0.5 < found < 0.66, "its products run at 650 of 989 TFLOP/s"


def test_one_rank_of_eight_cannot_judge_waiting() -> None:
    found = answer("synthetic-communication-bound.json.gz")

    assert "transfer_or_wait" in {n.rule for n in found.not_judged}
    assert found.verdict.confidence == "low"


def test_the_four_unfused_parts_are_found() -> None:
    found = {f.rule for f in answer("synthetic-memory-bound.json.gz").findings}

    assert {"unfused-attention", "unfused-norm", "unfused-loss", "unfused-optimizer"} <= found


def test_a_remedy_is_never_both_proposed_and_advised_against() -> None:
    for name in EXPECTED:
        found = answer(name)
        proposed = {key for f in found.findings if f.patch for key in f.patch.set}
        assert not proposed & {n.what for n in found.not_advised}, name


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith("h200-")])
def test_a_trace_of_a_gpu_names_its_card_and_no_path_of_a_machine(name: str) -> None:
    text = gzip.decompress((FOLDER / name).read_bytes()).decode()

    assert [device["name"] for device in json.loads(text)["deviceProperties"]] == ["NVIDIA H200"]
    assert re.findall(r'"/(?:[^/"]+/)+', text) == []


RULES = load_rules((), units())


@over_all("rule", RULES)
def test_a_shipped_rule_fires_somewhere_and_is_quiet_elsewhere(rule: object) -> None:
    fires = any(f.rule == rule.id for name in EXPECTED for f in answer(name).findings)  # type: ignore[attr-defined]
    answers = {example.expect for example in rule.examples}  # type: ignore[attr-defined]

    assert fires or answers & set(SEVERITIES)
    assert "quiet" in answers


@pytest.mark.parametrize("name", STRAGGLERS)
def test_the_waiting_for_a_late_rank_has_one_share(name: str) -> None:
    found = answer(name)
    (straggler,) = found.stragglers
    (finding,) = (finding for finding in found.findings if finding.rule == "straggler")

    told = f"{100 * waited_share(straggler, found):.1f} %"

    assert f"hold the others up for {told} of theirs" in finding.says
