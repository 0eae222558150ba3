"""Public traces of other people's jobs: what is said of them, and what is not."""

import pytest
from more_traces import answer_for, more_trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError

pytestmark = pytest.mark.long


def facts_of(answer: Diagnosis) -> dict[str, object]:
    return {fact.name: fact.value for fact in answer.facts}


def test_the_capture_of_a_graph_is_told_as_such() -> None:
    answer = answer_for("graph-capture-bs32.json.gz")

    assert answer.verdict.class_ == "undecided"
    assert "is graph capture" in answer.verdict.because
    assert answer.next.rule == "graph-capture"


def test_the_capture_of_a_graph_loses_nothing_and_computes_nothing() -> None:
    answer = answer_for("graph-capture-bs32.json.gz")

    assert facts_of(answer)["gpu_events_lost_share"] == 0
    assert answer.mfu.value is None
    assert "capture a GPU graph" in answer.mfu.reason
    assert "lost-gpu-events" not in {finding.rule for finding in answer.findings}
    assert "capture again" not in " ".join(finding.do for finding in answer.findings).lower()


def test_a_window_of_replays_begins_with_the_first_gpu_activity() -> None:
    answer = answer_for("graph-execution-piecewise.json.gz")
    unexplained = sum(entry.share for entry in answer.ledger if entry.class_ == "unexplained")

    assert answer.steps.source == "window"
    assert answer.steps.uncounted_ns == pytest.approx(151.2e6, rel=0.001)
    assert sum(entry.ns for entry in answer.ledger) == answer.steps.device_time_ns
    assert unexplained < 0.01
    assert answer.verdict.class_ == "compute-bound"


def test_a_device_with_categories_of_its_own_is_named_and_counted() -> None:
    answer = answer_for("mtia-inference.json.gz")

    assert answer.verdict.class_ == "undecided"
    assert "1,313 events of mtia_ccp_events and 823 events of mtia_runtime" in answer.verdict.because
    assert facts_of(answer)["unknown_device_events"] == 1313 + 823
    assert not answer.plan


def test_a_unit_test_of_three_events_has_an_answer() -> None:
    answer = answer_for("conv-synthetic.json.gz")

    assert answer.verdict.class_ == "compute-bound"
    assert not [entry for entry in answer.not_judged if "defect" in entry.because]


def test_imports_before_the_first_kernel_are_no_part_of_the_step() -> None:
    answer = answer_for("gemm-microbenchmark.json.gz")

    assert answer.verdict.class_ == "compute-bound"
    assert "start-fills-capture" in {finding.rule for finding in answer.findings}


def test_the_file_of_another_tool_is_refused() -> None:
    with pytest.raises(UserError, match=r"none of which torch\.profiler writes") as refusal:
        analyze(more_trace("not-torch.json"))

    assert refusal.value.exit_code == 3
