"""What holds of every trace: the parts of a step add up to it, and the order of events in the file means nothing."""

from pathlib import Path
from random import Random

import pytest
from analysed import ADD, COMM, GEMM, MS, US, attribution, causes, content, facts, timeline
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto import COMMUNICATION, Trace

from diagnose import intervals as iv
from diagnose.analysis import analyze

Actions = list[tuple[object, ...]]
MICROSECONDS = st.integers(0, 3000).map(lambda n: n / 3)
STREAMS = st.sampled_from([7, 8, COMMUNICATION])
ACTIONS = st.one_of(
    st.tuples(
        st.just("launch"), st.sampled_from([GEMM, ADD, COMM]), MICROSECONDS, st.sampled_from([7, 8, COMMUNICATION])
    ),
    st.tuples(st.sampled_from(["host", "gc", "malloc", "loader"]), MICROSECONDS),
    st.tuples(st.just("cpu_op"), st.just("aten::add"), MICROSECONDS),
    st.tuples(st.just("copy"), st.integers(1, 10_000_000), st.sampled_from(["HtoD", "DtoH"]), st.booleans()),
    st.tuples(st.just("collective"), st.just("allreduce"), st.just(1 << 20), MICROSECONDS),
    st.tuples(st.sampled_from(["sync", "item"])),
)
STEPS = st.lists(st.lists(ACTIONS, max_size=8), min_size=1, max_size=4)


def built(steps: list[Actions]) -> Trace:
    job = Trace(world=2)
    for actions in steps:
        with job.step():
            job.launch(ADD, 1)
            for name, *arguments in actions:
                getattr(job, str(name))(*arguments)
    return job


@settings(max_examples=60, deadline=None, database=None)
@given(STEPS)
def test_the_parts_are_disjoint_and_add_up_to_the_steps(steps: list[Actions]) -> None:
    job = built(steps)
    windows, found = timeline(job).windows, attribution(job)

    assert (found.end > found.start).all()
    assert (found.start[1:] >= found.end[:-1]).all()
    assert sum(found.ns().values()) == found.total_ns
    pieces = iv.union(*(found.pieces(cause) for cause in found.causes))
    assert (iv.coverage(pieces, windows[:, 0], windows[:, 1]) == windows[:, 1] - windows[:, 0]).all()
    assert (windows[:, 1] > windows[:, 0]).all()


@settings(max_examples=60, deadline=None, database=None)
@given(STEPS)
def test_shares_of_the_step_stay_within_it(steps: list[Actions]) -> None:
    found = facts(built(steps))

    classes = ("data", "host", "memory", "compute", "communication", "unexplained")
    shares = [found[f"{name}_share"].value for name in classes]
    assert sum(map(float, shares)) == pytest.approx(1)  # type: ignore[arg-type]
    assert float(found["gpu_busy_share"].value) + float(found["gpu_idle_share"].value) == pytest.approx(1)  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None, database=None)
@given(STEPS, st.integers())
def test_the_order_of_the_events_in_the_file_does_not_matter(steps: list[Actions], seed: int) -> None:
    found = content(built(steps))
    shuffled = found["traceEvents"].copy()
    Random(seed).shuffle(shuffled)

    assert causes(found | {"traceEvents": shuffled}) == causes(found)


def test_nor_does_it_for_kernels_that_start_in_the_same_nanosecond() -> None:
    job = Trace()
    with job.step():
        job.launch(GEMM, 100, stream=7)
        job.launch(ADD, 200, stream=8)
    found = content(job)
    first, second = (e for e in found["traceEvents"] if e.get("cat") == "kernel")
    second["ts"] = first["ts"]

    assert causes(found | {"traceEvents": found["traceEvents"][::-1]}) == causes(found)


@settings(max_examples=20, deadline=None, database=None)
@given(STEPS, st.integers(-(10**6), 10**6))
def test_when_the_trace_was_taken_does_not_matter(steps: list[Actions], moved_us: int) -> None:
    found = content(built(steps))
    moved = [e | {"ts": e["ts"] + moved_us} if "ts" in e else e for e in found["traceEvents"]]

    assert causes(found | {"traceEvents": moved}) == causes(found)


def test_a_kernel_that_starts_before_its_launch_is_kept() -> None:
    job = Trace()
    with job.step():
        job.launch(GEMM, 100)
        job.host(500)
        job.launch(GEMM, 100)
    found = content(job)
    [e for e in found["traceEvents"] if e.get("cat") == "kernel"][1]["ts"] -= 50

    assert causes(found)["gemm"] == 200 * US
    assert sum(causes(found).values()) == attribution(found).total_ns == (610 - 50) * US


def test_the_ledger_adds_up_when_one_rank_has_no_gpu_activity(tmp_path: Path) -> None:
    for rank, gpu in enumerate(["NVIDIA H100 80GB HBM3", None]):
        job = Trace(gpu=gpu, rank=rank, world=2)
        for _ in range(3):
            with job.step():
                job.launch(GEMM, 500) if gpu else job.cpu_op("aten::mm", MS / US)
        job.write(tmp_path / f"rank{rank}.json")

    found = analyze(tmp_path)

    assert sum(e.ns for e in found.ledger) == (found.steps.device_time_ns or found.steps.time_ns)


def test_steps_whose_rounded_times_overlap_share_no_time() -> None:
    job = Trace(world=2)
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::mm", 500)
    trace = content(job)
    for event in trace["traceEvents"]:
        event["dur"] = event["dur"] + 1 if str(event.get("name")).startswith("ProfilerStep") else event.get("dur", 0)

    found = attribution(trace)

    assert sum(found.ns().values()) == found.total_ns
