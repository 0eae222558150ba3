"""A job is built twice, without and with a change: the replay of the first foretells how long the second takes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from analysed import ADD, GEMM, timeline
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto import Trace
from replay.replayed import US, replay_of

from diagnose.arrays import Coded
from diagnose.predict.replay import Replay, StepChange
from diagnose.timeline import Timeline

pytestmark = pytest.mark.long

Actions = list[tuple[Any, ...]]
MICROSECONDS = st.integers(1, 1000)
ACTIONS = st.one_of(
    st.tuples(st.just("launch"), st.sampled_from([GEMM, ADD]), MICROSECONDS),
    st.tuples(st.just("elsewhere"), MICROSECONDS),
    st.tuples(st.just("reduce"), MICROSECONDS),
    st.tuples(st.sampled_from(["host", "gc", "malloc", "loader"]), MICROSECONDS),
    st.tuples(st.just("cpu_op"), st.just("aten::add"), MICROSECONDS),
    st.tuples(st.just("sync")),
)
STEPS, SETTLED = 14, 6


def built(actions: Actions, *, gpu: float = 1, data: float = 1, sync: bool = True) -> Timeline:
    """Steps that do `actions`, with kernels and waits for data scaled, or without synchronisations."""
    job = Trace(world=2)
    for _ in range(STEPS):
        with job.step():
            job.launch(ADD, 10 * gpu)
            for name, *arguments in actions:
                if name == "launch":
                    job.launch(arguments[0], arguments[1] * gpu)
                elif name == "elsewhere":  # a kernel on a stream of its own, between two of the first stream
                    job.wait(stream=7, waiter=8)
                    job.launch(ADD, arguments[0] * gpu, stream=8)
                    job.wait(stream=8, waiter=7)
                elif name == "reduce":
                    job.collective("allreduce", 1 << 20, arguments[0] * gpu, wait=True)
                elif name == "loader":
                    job.loader(us=arguments[0] * data)
                elif name != "sync" or sync:
                    getattr(job, name)(*arguments)
    return timeline(job)


def step_ns(line: Timeline) -> float:
    """Mean of the last steps."""
    windows = line.windows[-SETTLED:]
    return float(windows[-1, 1] - windows[0, 0]) / SETTLED


def without_waits(line: Timeline, found: Replay) -> StepChange:
    no_wait = np.zeros(len(line.trace), bool)
    no_wait[found.waits] = True
    return StepChange(no_wait=no_wait, host={"sync": 0})


@pytest.mark.parametrize(
    ("how", "change"),
    [
        ({}, lambda line, found: StepChange()),
        ({"gpu": 0.5}, lambda line, found: StepChange(kernels=Coded.of(np.full(len(line.gpu), 0.5)))),
        ({"gpu": 3}, lambda line, found: StepChange(kernels=Coded.of(np.full(len(line.gpu), 3.0)))),
        ({"data": 0}, lambda line, found: StepChange(host={"data-wait": 0})),
        ({"sync": False}, without_waits),
    ],
    ids=["as it is", "kernels twice as fast", "kernels three times as slow", "no wait for data", "no synchronisation"],
)
@settings(max_examples=25, deadline=None, database=None)
@given(actions=st.lists(ACTIONS, min_size=1, max_size=10))
def test_the_changed_job_takes_what_the_replay_foretells(
    how: dict[str, Any], change: Callable[[Timeline, Replay], StepChange], actions: Actions
) -> None:
    line = built(actions)
    found = replay_of(line)

    assert found.step_ns(change(line, found)) == pytest.approx(step_ns(built(actions, **how)), rel=0.02, abs=10 * US)
