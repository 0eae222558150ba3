"""What holds of every replay: less work never takes longer, and the order of the file's events means nothing."""

from random import Random
from typing import Any

import numpy as np
import pytest
from analysed import ADD, COMM, GEMM, content, timeline
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto import COMMUNICATION, Trace
from replay.replayed import replay, replay_of

from diagnose.arrays import Coded
from diagnose.predict.replay import HostSpeeds, StepChange

pytestmark = pytest.mark.long

MICROSECONDS = st.integers(0, 2000).map(lambda n: n / 3)
STREAMS = st.sampled_from([7, 8, COMMUNICATION])
ACTIONS = st.one_of(
    st.tuples(st.just("launch"), st.sampled_from([GEMM, ADD, COMM]), MICROSECONDS, STREAMS),
    st.tuples(st.just("wait"), STREAMS, STREAMS),
    st.tuples(st.sampled_from(["host", "gc", "malloc", "loader"]), MICROSECONDS),
    st.tuples(st.just("cpu_op"), st.just("aten::add"), MICROSECONDS),
    st.tuples(st.just("copy"), st.integers(1, 10_000_000), st.sampled_from(["HtoD", "DtoH"]), st.booleans()),
    st.tuples(st.just("collective"), st.just("allreduce"), st.just(1 << 20), MICROSECONDS),
    st.tuples(st.sampled_from(["sync", "item"])),
)
STEPS = st.lists(st.lists(ACTIONS, max_size=8), min_size=1, max_size=4)
FACTORS = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
CAUSES = st.sampled_from(["data-wait", "sync", "allocation", "gc", "python", "dispatch", "untraced", "launch-latency"])


def built(steps: list[list[tuple[Any, ...]]]) -> Trace:
    job = Trace(world=2)
    for actions in steps:
        with job.step():
            job.launch(ADD, 1)
            for name, *arguments in actions:
                getattr(job, name)(*arguments)
    return job


@settings(max_examples=80, deadline=None, database=None)
@given(STEPS, st.data())
def test_less_work_never_takes_longer(steps: list[list[tuple[Any, ...]]], data: st.DataObject) -> None:
    line = timeline(built(steps))
    found = replay_of(line)

    def array(values: st.SearchStrategy[Any], size: int) -> np.ndarray:
        return np.array(data.draw(st.lists(values, min_size=size, max_size=size)))

    kernels = Coded.of(array(FACTORS, len(line.gpu)))
    fewer_waits = np.zeros(len(line.trace), bool)
    fewer_waits[found.waits] = array(st.booleans(), len(found.waits))
    host = data.draw(st.dictionaries(CAUSES, FACTORS))
    for less in (
        StepChange(kernels=kernels),
        StepChange(merge=array(st.booleans(), len(line.gpu))),
        StepChange(host=host),
        StepChange(no_wait=fewer_waits),
        StepChange(launches=data.draw(FACTORS), host_speeds=HostSpeeds(data.draw(FACTORS))),
        StepChange(communication=data.draw(FACTORS)),
        StepChange(overlap=True),
        StepChange(kernels=kernels, host=host, no_wait=fewer_waits, communication=0.5),
    ):
        assert found.step_ns(less) <= found.step_ns() * (1 + 1e-5) + 1


@settings(max_examples=40, deadline=None, database=None)
@given(STEPS, st.floats(0.1, 1))
def test_all_durations_and_times_scaled_scale_the_step_or_leave_a_floor(steps: Any, factor: float) -> None:
    line = timeline(built(steps))
    found = replay_of(line)
    names = ("launch-latency", "kernel-gap")
    all_scaled = StepChange(
        kernels=Coded.of(np.full(len(line.gpu), factor)),
        host=dict.fromkeys(names, factor),
        host_speeds=HostSpeeds(factor),
    )

    assert found.step_ns(all_scaled) >= factor * found.step_ns() * (1 - 1e-5)


@settings(max_examples=40, deadline=None, database=None)
@given(STEPS, st.integers(0, 2**16))
def test_the_order_of_the_events_in_the_file_does_not_matter(steps: Any, seed: int) -> None:
    found = content(built(steps))
    shuffled = found["traceEvents"].copy()
    Random(seed).shuffle(shuffled)

    assert replay(found | {"traceEvents": shuffled}).step_ns() == replay(found).step_ns()


def test_nor_does_it_for_equal_kernels_that_start_in_the_same_nanosecond() -> None:
    job = Trace()
    for _ in range(4):
        with job.step():
            job.launch(GEMM, 100, stream=7)
            job.launch(GEMM, 100, stream=8)
    found = content(job)
    kernels = [e for e in found["traceEvents"] if e.get("cat") == "kernel"]
    for first, second in zip(kernels[::2], kernels[1::2], strict=True):
        second["ts"] = first["ts"]

    assert replay(found | {"traceEvents": found["traceEvents"][::-1]}).step_ns() == replay(found).step_ns()


@pytest.mark.parametrize("change", [StepChange(), StepChange(host_speeds=HostSpeeds(0.5)), StepChange(overlap=True)])
def test_a_replay_gives_the_same_answer_each_time(change: StepChange) -> None:
    job = Trace(world=2)
    for _ in range(4):
        with job.step():
            job.launch(GEMM, 70)
            job.collective("allreduce", 1 << 20, 30, wait=True)
            job.item()
    found = replay(job)

    assert len({found.step_ns(change) for _ in range(3)}) == 1
