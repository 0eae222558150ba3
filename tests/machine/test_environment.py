"""What silently slows a job: each variable and setting is found by its record, and a sane environment is silent."""

import json
from pathlib import Path

import pytest
from analysed import ADD
from faulty_traces import steps
from kineto import Trace
from machine.environment_jobs import (
    CASES,
    CURED,
    SANE,
    Record,
    Set,
    blocking,
    exchanging,
    plain_job,
    variable,
)
from own_words import in_its_words
from remedies.single_gpu_jobs import analysed

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

TOLD_BY_THE_TRACE = ("blocking-launches", "anomaly-detection", "infiniband-off")  # the last by its one node
each = pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES)


def rules(found: Diagnosis) -> set[str]:
    return {finding.rule for finding in found.findings}


def fact(found: Diagnosis, name: str) -> object:
    return next(fact.value for fact in found.facts if fact.name == name)


@each
def test_the_setting_is_found(name: str, case: Set, tmp_path: Path) -> None:
    found = analysed(tmp_path, case.job or plain_job(), case.record)
    finding = next(f for f in found.findings if f.rule == name)

    assert finding.severity == case.severity
    assert finding.evidence
    if case.patch is not None:
        assert finding.patch == in_its_words(found, case.patch)


@each
def test_the_same_job_with_a_sane_environment_is_silent(name: str, case: Set, tmp_path: Path) -> None:
    found = analysed(tmp_path, case.job or plain_job(), CURED.get(name, SANE))

    assert not rules(found) & {name}
    assert name not in {n.rule for n in found.not_judged}


@each
def test_without_a_record_it_is_not_judged(name: str, case: Set, tmp_path: Path) -> None:
    found = analysed(tmp_path, case.job or plain_job())

    assert name not in rules(found)
    if name not in TOLD_BY_THE_TRACE:
        assert name in {n.rule for n in found.not_judged}


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_healthy_job_has_none_of_them(name: str, tmp_path: Path) -> None:
    assert name not in rules(analysed(tmp_path, plain_job(), SANE))


def test_launches_that_block_are_told_by_the_trace_alone(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(json.dumps(blocking()), encoding="utf-8")

    assert "blocking-launches" in rules(analyze(tmp_path))


def test_what_blocks_is_undone_before_anything_is_compiled(tmp_path: Path) -> None:
    def short_kernels(job: Trace) -> None:
        for _ in range(300):
            job.op("aten::add", kernel=ADD, gpu_us=2)

    usual = analysed(tmp_path / "usual", steps(short_kernels), SANE)
    (tmp_path / "blocked.json").write_text(json.dumps(blocking()), encoding="utf-8")
    blocked = analyze(tmp_path / "blocked.json")

    assert usual.findings[0].rule == "launch-bound"
    assert blocked.findings[0].rule == "blocking-launches"
    assert "launch-bound" not in rules(blocked)


def test_on_a_cpu_the_variable_has_no_effect_and_that_is_said(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    for _ in range(5):
        with job.step():
            job.cpu_op("aten::mm", 500)
    found = analysed(tmp_path, job, variable(CUDA_LAUNCH_BLOCKING="1"))

    assert "blocking-launches" not in rules(found)
    assert any("the variable has no effect here" in n.because for n in found.not_advised)


@pytest.mark.parametrize(
    ("text", "off"), [("0", False), ("1", True), ("2", True)], ids=["zero is off", "one is on", "any number is on"]
)
def test_a_variable_of_zero_is_off(text: str, off: bool, tmp_path: Path) -> None:
    found = analysed(tmp_path, exchanging(600), variable(NCCL_P2P_DISABLE=text))

    assert fact(found, "peer_transfers_off") is off


@pytest.mark.parametrize(
    ("variables", "logs"),
    [
        ({"NCCL_DEBUG": "INFO"}, False),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,GRAPH"}, False),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL"}, True),
        ({"NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": "ALL"}, False),
        ({"NCCL_DEBUG": "TRACE"}, True),
    ],
)
def test_what_nccl_writes_for_each_call(variables: dict[str, str], logs: bool, tmp_path: Path) -> None:
    assert fact(analysed(tmp_path, exchanging(600), variable(**variables)), "collectives_are_logged") is logs


def test_hosts_without_infiniband_lose_nothing_by_doing_without_it(tmp_path: Path) -> None:
    record: Record = {**CASES["infiniband-off"].record, "infiniband_devices": 0}
    found = analysed(tmp_path, exchanging(600), record)

    assert "infiniband-off" not in rules(found)
    assert any("0 InfiniBand or RoCE devices" in n.because for n in found.not_advised)


@pytest.mark.parametrize(
    ("code", "gpu", "fits"),
    [
        (["sm_80"], "8.6", True),
        (["sm_86"], "8.0", False),
        (["sm_90a"], "9.0", True),
        (["sm_100a"], "10.3", False),
        (["sm_100f"], "10.3", True),
        (["sm_80", "compute_80"], "9.0", False),
    ],
)
def test_code_of_one_generation_runs_on_later_members_of_it(
    code: list[str], gpu: str, fits: bool, tmp_path: Path
) -> None:
    record = {**SANE, "torch_settings": {"gpu_code": code}, "device": {"compute_capability": gpu}}

    assert fact(analysed(tmp_path, plain_job(), record), "has_code_for_gpu") is fits


def test_looks_for_nan_are_told_by_the_trace(tmp_path: Path) -> None:
    def backward(job: Trace) -> None:
        with job.backward():
            job.cpu_op("aten::_is_any_true", 5)

    assert fact(analysed(tmp_path / "looks", steps(backward)), "detects_anomalies") is True
    assert fact(analysed(tmp_path / "plain", steps(lambda job: _backward(job))), "detects_anomalies") is False


def _backward(job: Trace) -> None:
    with job.backward():
        job.cpu_op("aten::mm", 5)
