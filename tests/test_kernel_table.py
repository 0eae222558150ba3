"""What the diagnosis holds beside the judgement: the kernels by name, and one step as it can be drawn."""

import json

import drawn as composed
import numpy as np
from analysed import ADD, COMM, GEMM, MS, US, capture_failed, measured
from hypothesis import given
from hypothesis import strategies as st
from kineto import COMMUNICATION, COPY, Trace
from msgspec.structs import replace

from diagnose.diagnosis import Lane, StepTimeline
from diagnose.judge.kernel_table import KERNELS_KEPT, kernel_rows, roofs_of, versions_of
from diagnose.judge.lanes import Row, _merged
from diagnose.judge.step_timeline import BUDGET, step_timeline


def one_step() -> Trace:
    """Data wait of 500 us, a product of 100 us, an addition and a collective of 50 us together."""
    job = Trace()
    with job.step():
        job.loader(us=500)
        job.op("aten::mm", [[64, 64], [64, 64]], GEMM, 100)
        job.launch(COMM, 50, COMMUNICATION)
        job.op("aten::add", [[64], [64]], ADD, 50)
    return job


def drawn(job: Trace) -> StepTimeline:
    found = step_timeline(measured(job))
    assert found is not None
    return found


def slices(step: StepTimeline, name: str) -> list[tuple[str, str, float, int]]:
    """Name, class, microseconds and count of the slices of a lane."""
    lane = next(lane for lane in step.lanes if lane.name == name)
    rows = zip(lane.label, lane.length_ns, lane.count, strict=True)
    return [(step.labels[i].name, step.labels[i].class_, ns / US, count) for i, ns, count in rows]


def test_kernels_are_summed_by_name_per_step() -> None:
    job = Trace()
    for _ in range(3):  # the first of three is not counted
        with job.step():
            job.op("aten::mm", [[64, 64], [64, 64]], [(GEMM, 100), (GEMM, 50)])
            job.op("aten::add", [[64], [64]], ADD, 20)
            job.copy(1000, "HtoD", pinned=True, stream=COPY)
            job.sync()

    rows = kernel_rows(measured(job))

    told = [(row.name[:12], row.family, row.class_, row.operator, row.count, row.ns // US, row.mean_ns) for row in rows]
    assert told == [
        (GEMM[:12], "gemm", "memory", "aten::mm", 2.0, 150, 75 * US),
        (ADD[:12], "elementwise", "memory", "aten::add", 1.0, 20, 20 * US),
        ("Memcpy HtoD ", "memcpy", "data", "aten::copy_", 1.0, 1, 1020),
    ]
    step_ns = measured(job).attribution.total_ns / 2
    assert [round(row.share, 6) for row in rows] == [round(row.ns / step_ns, 6) for row in rows]


def test_the_kernels_behind_the_longest_share_a_row() -> None:
    job = Trace()
    with job.step():
        for i in range(KERNELS_KEPT + 30):
            job.launch(f"kernel_{i}", 1000 - i)

    rows = kernel_rows(measured(job))

    assert len(rows) == KERNELS_KEPT + 1
    assert (rows[-1].name, rows[-1].names, rows[-1].count) == ("", 30, 30.0)
    assert sum(row.ns for row in rows) == sum(1000 - i for i in range(KERNELS_KEPT + 30)) * US
    assert rows[-1].ns == sum(1000 - i for i in range(KERNELS_KEPT, KERNELS_KEPT + 30)) * US


def test_the_lanes_of_a_step_hold_its_slices() -> None:
    step = drawn(one_step())

    threads = ["thread 4000", "thread 4000, runtime"]
    assert [lane.name for lane in step.lanes] == ["idle and waiting", "stream 7", "stream 23", *threads]
    assert slices(step, "stream 7") == [(GEMM, "memory", 100, 1), (ADD, "memory", 50, 1)]
    assert slices(step, "stream 23") == [(COMM, "communication", 50, 1)]
    assert slices(step, "idle and waiting")[0] == ("data-wait", "data", 500, 1)


def test_the_causes_and_the_busy_time_make_up_the_step() -> None:
    found = measured(one_step())
    step = step_timeline(found)
    assert step is not None

    waits = sum(us for *_, us, _ in slices(step, "idle and waiting"))
    kernels = found.cause_ns["gemm"] + found.cause_ns["elementwise"]
    assert waits * US + kernels == step.length_ns == found.attribution.total_ns


def test_the_step_of_median_length_is_drawn() -> None:
    job = Trace(first_step=40)
    for us in (100, 100, 700, 300):  # the first is not counted
        with job.step():
            job.launch(GEMM, us)
            job.sync()

    assert drawn(job).step == 43


def test_a_step_of_many_slices_is_bounded_and_says_from_where_on_they_are_merged() -> None:
    job = Trace()
    with job.step():
        for i in range(3000):
            job.op("aten::add", [[64], [64]], ADD, 1 + i % 3)

    step = drawn(job)

    for kind, most in BUDGET.items():
        lanes = [lane for lane in step.lanes if lane.kind == kind]
        assert most / 8 < sum(len(lane.start_ns) for lane in lanes) <= most
    assert step.merged_below_ns > 0
    assert sum(next(lane for lane in step.lanes if lane.kind == "stream").count) == 3000
    assert all(in_order(lane, step.length_ns) for lane in step.lanes)


def in_order(lane: Lane, length: int) -> bool:
    starts, ends = np.array(lane.start_ns), np.array(lane.start_ns) + np.array(lane.length_ns)
    return bool((starts[1:] >= ends[:-1]).all() and starts[0] >= 0 and ends[-1] <= length)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 30), st.integers(0, 2)), max_size=30), st.integers(0, 25))
def test_merging_loses_no_slice_and_keeps_the_main_label(gaps: list[tuple[int, int, int]], below: int) -> None:
    starts, ends, now = [], [], 0
    for gap, length, _ in gaps:
        starts.append(now + gap)
        now = now + gap + length
        ends.append(now)
    labels = [label for *_, label in gaps]
    columns = (np.array(each, np.int64) for each in (starts, ends, labels))
    row = Row("", "stream", *columns, [("a", ""), ("b", ""), ("c", "")])

    start, end, label, count = _merged(row, below)

    assert count.sum() == len(gaps)
    at = 0
    for begin, stop, chosen, number in zip(start, end, label, count, strict=True):
        own = range(at, at + number)
        time = [sum(ends[i] - starts[i] for i in own if labels[i] == each) for each in range(3)]
        assert (begin, stop) == (starts[own[0]], ends[own[-1]])
        assert time[chosen] == max(time)
        assert number == 1 or all(ends[i] - starts[i] < below for i in own)
        at += number


def test_without_a_gpu_the_threads_are_drawn_and_no_roof_is_known() -> None:
    job = Trace(gpu=None)
    with job.step():
        job.loader(us=500)
        job.cpu_op("aten::mm", 300)

    found = measured(job)
    step = step_timeline(found)

    assert step is not None
    assert [lane.name for lane in step.lanes] == ["idle and waiting", "thread 4000"]
    assert slices(step, "thread 4000")[1][:3] == ("aten::mm", "", 300)
    assert (roofs_of(found), kernel_rows(found)) == (None, ())


def test_of_a_failed_capture_no_cause_of_idling_is_drawn() -> None:
    step = step_timeline(measured(capture_failed(one_step())))

    assert step is not None
    assert {lane.kind for lane in step.lanes} == {"thread"}


def test_roofs_and_versions_are_those_of_the_device_and_its_trace() -> None:
    found = measured(one_step())

    roofs = roofs_of(found)
    assert roofs is not None
    assert roofs.hbm_bytes_per_s is not None
    assert {peak.precision: round(peak.flops_per_s / 1e12) for peak in roofs.peaks}["bf16"] == 989
    assert versions_of(found)["cuda_runtime_version"] == "12080"


def test_numbers_of_a_timeline_are_one_line_of_json() -> None:
    text = composed.drawn().to_json()

    assert '"start_ns": [0, 150000000],' in text
    assert json.loads(text)["timeline"]["lanes"][0]["start_ns"] == [0, 150 * MS]


def test_no_text_is_taken_for_numbers() -> None:
    name = "[\n 1, 2 ]"
    odd = replace(composed.drawn(), versions={"odd": name})

    assert json.loads(odd.to_json())["versions"] == {"odd": name}
