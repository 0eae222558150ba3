"""Steps whose GPU activities lie behind the end of the file or of the recording, or are linked to no launch."""

import json
from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM, content
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.report.views.summary import steps_line

SIZES = [[4096, 4096], [4096, 4096]]
PER_STEP = 10


def job(steps: int = 6) -> dict[str, Any]:
    """Steps of ten products, all alike, with the events of the GPU behind those of the host, as Kineto writes them."""
    built = Trace()
    for _ in range(steps):
        with built.step():
            for _ in range(PER_STEP):
                built.op("aten::mm", SIZES, GEMM, 200)
            built.sync()
    found = content(built)
    found["traceEvents"].sort(key=lambda event: event.get("cat") == "kernel")
    return found


def kernels(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in found["traceEvents"] if event.get("cat") == "kernel"]


def without_kernels(found: dict[str, Any], *numbers: int) -> str:
    """The trace without some of its kernels."""
    gone = [kernels(found)[number] for number in numbers]
    return json.dumps(found | {"traceEvents": [event for event in found["traceEvents"] if event not in gone]})


def diagnosed(tmp_path: Path, text: str) -> Diagnosis:
    (tmp_path / "rank0.json").write_text(text, encoding="utf-8")
    return analyze(tmp_path)


def fact(found: Diagnosis, name: str) -> object:
    return next(each for each in found.facts if each.name == name).value


@pytest.mark.parametrize("kept", [41, 45, 49])
def test_steps_that_the_end_of_the_file_cuts_are_not_counted(kept: int, tmp_path: Path) -> None:
    whole, text = diagnosed(tmp_path, json.dumps(job())), json.dumps(job())
    cut = diagnosed(tmp_path, text[: [i for i in range(len(text)) if text.startswith('"cat": "kernel"', i)][kept]])

    assert cut.trace.loss.truncated
    assert cut.steps.numbers == (11, 12, 13)
    assert cut.mfu.value == pytest.approx(whole.mfu.value, rel=0.01)
    assert cut.steps.each_ns == pytest.approx(whole.steps.each_ns[:3], rel=0.01)


def test_a_step_whose_last_kernels_were_not_recorded_is_not_counted(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, without_kernels(job(), *range(56, 60)))

    assert found.steps.numbers == (11, 12, 13, 14)
    assert fact(found, "gpu_events_lost_share") == 0
    assert fact(found, "gpu_events_lost_outside_share") == pytest.approx(4 / 60)


def test_kernels_lost_here_and_there_cut_no_step(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, without_kernels(job(), 25, 35, 45, 55))

    assert found.steps.numbers == (11, 12, 13, 14, 15)


def test_where_no_step_is_whole_all_are_counted(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, without_kernels(job(steps=1), 8, 9))

    assert found.steps.count == 1


@pytest.mark.parametrize("id", [None, 1 << 63], ids=["none", "beyond the range of ids"])
def test_without_links_the_marks_tell_nothing_and_no_kernel_is_called_lost(id: int | None, tmp_path: Path) -> None:
    trace = job()
    for event in kernels(trace) if id is None else trace["traceEvents"]:
        if "correlation" in event.get("args", {}):
            event["args"]["correlation"] = 0 if id is None else id + event["args"]["correlation"]
            event["args"].pop("External id", None)
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event.get("cat") != "gpu_user_annotation"]
    found = diagnosed(tmp_path, json.dumps(trace))

    lost = next(each for each in found.facts if each.name == "gpu_events_lost_share")
    assert lost.value is None
    assert "no GPU activity is linked to a launch" in lost.because
    assert "no GPU activity is linked to a launch in its step marks" in steps_line(found)
    assert not {"lost-gpu-events"} & {finding.rule for finding in found.findings}


def test_whole_steps_that_do_no_work_on_the_device_do_not_stand_for_those_that_do(tmp_path: Path) -> None:
    trace = job()
    for kernel in kernels(trace)[:50]:
        kernel["pid"], kernel["dur"] = 1, 0.001
    found = diagnosed(tmp_path, without_kernels(trace, 58, 59))

    assert found.steps.numbers == (15,)
    assert found.steps.device_time_ns


def test_a_last_step_that_launches_no_kernel_counts_where_nothing_is_cut(tmp_path: Path) -> None:
    built = Trace()
    for number in range(5):
        with built.step():
            built.op("aten::mm", SIZES, GEMM, 200) if number < 4 else built.copy(1 << 20)
            built.sync()

    assert diagnosed(tmp_path, json.dumps(built.json())).steps.numbers == (11, 12, 13, 14)
