"""A long gap inside one operator: a cause of its own, named by the operator, that no quicker launch cures."""

from pathlib import Path
from typing import Any

import pytest
from analysed import ADD, GEMM
from cut_captures import SAMPLES, answer_for, delayed, diagnosed, fact, is_gpu, read, rules, share
from kineto import Trace
from read_once import diagnosis_of

from diagnose.diagnosis import Diagnosis

MS = 1000.0


def gain(answer: Diagnosis, rule: str) -> tuple[float, float | None] | None:
    """The predicted gain of a finding, None if there is none."""
    return next((f.predicted_speedup for f in answer.findings if f.rule == rule), None)


def middle_launch(trace: dict[str, Any]) -> float:
    """The time just before a launch call within an operator of the model, in the middle of the trace."""
    gpu = {event["args"].get("correlation") for event in trace["traceEvents"] if is_gpu(event)}
    calls = [event for event in trace["traceEvents"] if event.get("name") == "cudaLaunchKernel"]
    begins = sorted(float(call["ts"]) for call in calls if call["args"]["correlation"] in gpu)
    operators = [event for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    fetches = [event for event in trace["traceEvents"] if "data_wait" in str(event.get("name"))]

    def within(at: float, events: list[dict[str, Any]]) -> bool:
        return any(event["ts"] < at - 1 < event["ts"] + event["dur"] for event in events)

    middle = begins[len(begins) // 2 :]
    return next(at for at in middle if within(at, operators) and not within(at, fetches)) - 0.1


def test_a_scripted_function_that_is_compiled_is_not_launched_slowly() -> None:
    answer = answer_for("torchscript-fusion-second-call")

    assert answer.verdict.class_ == "undecided"
    assert answer.next.rule == "long-gap-in-operator"
    assert fact(answer, "operator_gap_operator") == "delta_r2"
    assert fact(answer, "operator_gap_count") == 2
    assert "delta_r2" in answer.next.says
    assert "Compilation" in answer.next.says
    assert "launch-bound" not in rules(answer)
    assert share(answer, "dispatch") < 0.01


@pytest.mark.parametrize("name", ["h200-llama-eager", "h200-small-kernels", "synthetic-tiny-kernels"])
def test_a_gap_inside_an_operator_raises_no_gain_of_quicker_launches(name: str, tmp_path: Path) -> None:
    path = SAMPLES / f"{name}.json.gz"
    trace = read(path)
    usual, answer = diagnosis_of(path), diagnosed(delayed(trace, middle_launch(trace), 200 * MS), tmp_path)

    assert share(answer, "operator-gap") > 0.2
    assert "long-gap-in-operator" in rules(answer)
    assert answer.verdict.class_ in ("undecided", usual.verdict.class_)
    assert (gain(answer, "launch-bound") or (1.0, 1.0))[0] <= (gain(usual, "launch-bound") or (1.0, 1.0))[0]
    assert sum(entry.ns for entry in answer.ledger) == answer.steps.device_time_ns


def with_gaps(us: float, calls: int, shown: bool = False) -> Trace:
    """Steps of many products, and an operator that works on the host before its launch in some of the steps."""
    job = Trace()
    for number in range(5):
        with job.step():
            for _ in range(30):
                job.op("aten::mm", [[512, 512]] * 2, GEMM, 40)
            for _ in range(calls if number != 2 else max(calls, 1)):
                with job.inside("aten::normal_"):
                    job.event("python_function", "noise.py(3): draw", us) if shown else job.host(us)
                    job.launch(ADD, 10)
    return job


def test_an_operator_that_works_on_the_host_in_each_call_is_told_from_one_that_starts(tmp_path: Path) -> None:
    answer = diagnosed(with_gaps(30 * MS, 2).json(), tmp_path)

    assert answer.verdict.class_ == "host-bound"
    assert answer.next.rule == "slow-operator-on-host"
    assert "aten::normal_" in answer.next.says
    assert not {"long-gap-in-operator", "launch-bound"} & rules(answer)


def test_a_gap_in_one_step_of_several_is_one_that_comes_once(tmp_path: Path) -> None:
    answer = diagnosed(with_gaps(30 * MS, 0).json(), tmp_path)

    assert answer.next.rule == "long-gap-in-operator"
    assert answer.verdict.class_ == "undecided"
    assert fact(answer, "operator_gap_recurs") is False


@pytest.mark.parametrize(("us", "shown"), [(300, False), (30 * MS, True)], ids=["short", "in Python"])
def test_a_short_gap_and_one_that_the_trace_shows_are_none(us: float, shown: bool, tmp_path: Path) -> None:
    answer = diagnosed(with_gaps(us, 2, shown).json(), tmp_path)

    assert share(answer, "operator-gap") == 0
    assert not {"long-gap-in-operator", "slow-operator-on-host"} & rules(answer)
