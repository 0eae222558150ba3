"""Captures in which the GPU's activity is missing, or a part of it: which case it is, and what is said of the host."""

from pathlib import Path

import pytest
from cut_captures import SAMPLES, answer_for, delayed, diagnosed, fact, is_gpu, only, read, rules, share, without_gpu
from kineto import Trace
from read_once import diagnosis_of

from diagnose.diagnosis import Diagnosis

MS = 1000.0
LLAMA = SAMPLES / "h200-llama-eager.json.gz"
ON_CPU = SAMPLES / "cpu-healthy.json.gz"


def advice(answer: Diagnosis) -> str:
    """All that is said to be done."""
    captures = [entry.capture_next for entry in answer.not_judged]
    return " ".join([answer.next.do, answer.next.says, answer.mfu.reason, *captures, *(f.do for f in answer.findings)])


def test_an_empty_capture_is_undecided_and_says_that_nothing_was_recorded() -> None:
    answer = answer_for("empty-capture-3090")

    assert answer.verdict.class_ == "undecided"
    assert "nothing was recorded" in answer.verdict.because
    assert answer.steps.time_ns == pytest.approx(77.9e9, rel=0.01)
    assert answer.next.rule == "empty-capture"
    assert "python-host" not in rules(answer)
    assert "ProfilerActivity.CUDA" not in advice(answer)


@pytest.mark.parametrize("calls", [0, 1, 50])
def test_a_capture_without_operators_is_empty_however_many_calls_and_functions_it_holds(
    calls: int, tmp_path: Path
) -> None:
    job = Trace()
    with job.step():
        job.event("python_function", "selectors.py(451): select", 300_000)
        for _ in range(calls):
            job.event("cuda_runtime", "cudaDeviceSynchronize", 200_000)
    answer = diagnosed(job.json(), tmp_path)

    assert answer.verdict.class_ == "undecided"
    assert answer.next.rule == "empty-capture"
    assert share(answer, "nothing-recorded") == 1


def test_a_model_on_the_cpu_of_a_gpu_machine_is_told_so_first() -> None:
    answer = answer_for("cpu-products-final-sync")

    assert answer.verdict.class_ == "compute-bound"
    assert share(answer, "python", "sync") < 0.02, "the profiler's synchronisation is outside the step"
    assert answer.findings[0].rule == answer.next.rule == "model-on-cpu"
    assert "NVIDIA A100 80GB PCIe" in answer.findings[0].says
    assert '.to("cuda")' in answer.next.do
    assert "ProfilerActivity.CUDA" not in advice(answer)


def test_a_listed_gpu_whose_activity_was_not_asked_for_is_not_called_idle(tmp_path: Path) -> None:
    devices = read(LLAMA)["deviceProperties"]
    answer = diagnosed(read(ON_CPU) | {"deviceProperties": devices}, tmp_path)

    assert fact(answer, "gpu_record") == "not recorded"
    assert "model-on-cpu" not in rules(answer)
    assert answer.next.rule == "gpu-not-recorded"
    assert "ProfilerActivity.CUDA]" in answer.next.do


def test_a_machine_without_a_gpu_is_asked_for_no_other_device(tmp_path: Path) -> None:
    answer = diagnosed(read(ON_CPU), tmp_path)

    assert fact(answer, "gpu_record") == "no GPU"
    assert not {"model-on-cpu", "lost-gpu-events", "empty-capture"} & rules(answer)


@pytest.mark.parametrize("name", ["no-kernels-4060", "h200-llama-eager"])
def test_where_all_gpu_events_are_lost_fewer_steps_are_no_advice(name: str, tmp_path: Path) -> None:
    answer = answer_for(name) if name.startswith("no") else diagnosed(without_gpu(read(LLAMA)), tmp_path)

    assert fact(answer, "gpu_record") == "all lost"
    assert answer.verdict.class_ == "undecided"
    assert answer.next.rule == "lost-gpu-events"
    assert "fewer steps" not in answer.next.action + advice(answer)
    assert "container" in answer.next.do


def test_launches_without_a_correlation_are_lost_too(tmp_path: Path) -> None:
    trace = without_gpu(read(LLAMA))
    events = [
        event | {"args": {name: value for name, value in event.get("args", {}).items() if name != "correlation"}}
        for event in trace["traceEvents"]
    ]

    assert diagnosed(trace | {"traceEvents": events}, tmp_path).next.rule == "lost-gpu-events"


def test_time_before_the_first_recorded_step_is_not_counted_as_idle(tmp_path: Path) -> None:
    usual, answer = diagnosis_of(LLAMA), diagnosed(without_gpu(read(LLAMA), 0.0, 0.5), tmp_path)

    assert answer.verdict.class_ == usual.verdict.class_
    assert answer.steps.each_ns[0] < 1.2 * max(usual.steps.each_ns)


def test_the_first_step_is_left_out_also_where_the_last_ones_are_lost(tmp_path: Path) -> None:
    path = SAMPLES / "h200-misaligned-products.json.gz"
    usual, answer = diagnosis_of(path), diagnosed(without_gpu(read(path), 0.7, 1.0), tmp_path)

    assert answer.steps.numbers == (14,)
    assert answer.verdict.class_ == usual.verdict.class_
    assert answer.next.rule == usual.next.rule


def test_copies_alone_whose_activity_is_missing_are_lost_too(tmp_path: Path) -> None:
    job = Trace()
    with job.step():
        job.cpu_op("aten::normal_", 500)
        job.copy(1 << 20)
    answer = diagnosed(only(job.json(), lambda event: not is_gpu(event)), tmp_path)

    assert answer.next.rule == "lost-gpu-events"


@pytest.mark.parametrize(
    ("first", "last", "record", "says"),
    [
        (0.0, 0.3, "lost at the start", "warm up"),
        (0.0, 0.6, "lost at the start", "warm up"),
        (0.8, 1.0, "lost at the end", "fewer steps"),
        (0.45, 0.6, "lost in between", "fewer steps"),
    ],
)
def test_the_place_of_the_loss_decides_the_advice(
    first: float, last: float, record: str, says: str, tmp_path: Path
) -> None:
    answer = diagnosed(without_gpu(read(LLAMA), first, last), tmp_path)
    lost = next(finding for finding in answer.findings if finding.rule == "lost-gpu-events")

    assert fact(answer, "gpu_record") == record
    assert says in lost.do


def test_loss_is_counted_over_the_counted_steps(tmp_path: Path) -> None:
    marked, whole = Trace(), Trace()
    for job in (marked, whole):
        for _ in range(6):
            with job.step():
                for _ in range(10):
                    job.op("aten::mm", kernel="nvjet_tst", gpu_us=200)
                job.sync()
    answer = diagnosed(without_gpu(marked.json(), 0.0, 0.4), tmp_path)

    assert fact(answer, "gpu_events_lost_share") == 0
    assert fact(answer, "gpu_events_lost_outside_share") == pytest.approx(0.4)
    assert answer.verdict.class_ == diagnosed(whole.json(), tmp_path).verdict.class_ != "undecided"


@pytest.mark.parametrize("name", ["cpu-healthy", "cpu-slow-loader", "cpu-python-host"])
def test_a_long_gap_that_the_trace_does_not_show_is_not_python(name: str, tmp_path: Path) -> None:
    path = SAMPLES / f"{name}.json.gz"
    trace = read(path)
    step = next(event for event in trace["traceEvents"] if event["name"] == "ProfilerStep#4")
    first = min(
        e["ts"] + e["dur"] for e in trace["traceEvents"] if e["name"] == "aten::linear" and e["ts"] > step["ts"]
    )
    before, answer = diagnosis_of(path), diagnosed(delayed(trace, first + 0.2, 400 * MS), tmp_path)

    assert share(answer, "untraced-step") > 0.5
    assert answer.verdict.class_ == "undecided"
    assert nanoseconds(answer, "python") == pytest.approx(nanoseconds(before, "python"), abs=2e6)
    assert "with_stack=True" in advice(answer)


def test_a_long_gap_in_which_a_function_of_python_runs_is_python(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::addmm", 2000)
            job.event("python_function", "train.py(12): score", 5000)
    answer = diagnosed(job.json(), tmp_path)

    assert share(answer, "python") > 0.6
    assert answer.verdict.class_ == "host-bound"


@pytest.mark.parametrize(("before_us", "explained"), [(8000, 12_000), (80_000, 4000)])
def test_the_engine_of_autograd_explains_gaps_at_the_ends_of_the_backward_pass_that_are_not_too_long(
    before_us: int, explained: int, tmp_path: Path
) -> None:
    job = Trace(gpu=None)
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::addmm", 2000)
            job.host(before_us)
            with job.backward():
                job.cpu_op("aten::mm", 3000)
            job.host(4000)
            job.cpu_op("aten::add", 100)
    answer = diagnosed(job.json(), tmp_path)

    assert share(answer, "autograd-engine") == pytest.approx(explained / (9100 + before_us), abs=0.02)
    assert share(answer, "python") == 0


def test_a_long_gap_inside_one_operator_is_told_apart_from_what_lies_between(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    with job.step():
        job.cpu_op("aten::addmm", 2000)
        with job.inside("scripted_function"):
            job.host(6000)
            job.cpu_op("aten::add", 100)
    answer = diagnosed(job.json(), tmp_path)

    assert share(answer, "untraced-operator") == pytest.approx(6000 / 8100, abs=0.02)
    assert answer.verdict.class_ == "undecided"


def nanoseconds(answer: Diagnosis, cause: str) -> int:
    return sum(entry.ns for entry in answer.ledger if entry.cause == cause)
