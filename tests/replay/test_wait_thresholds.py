"""Both sides of each threshold by which the replay tells what a kernel or a call waited for, in numbers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from diagnose.predict.replay import device, replay, waits

US = 1_000


def activities(start: list[float], end: list[float], launched: list[float], stream: list[int], **more: Any) -> Any:
    """Of several streams, in microseconds."""

    class Gpu(SimpleNamespace):
        def __len__(self) -> int:
            return len(start)

    times = {"start": start, "end": end, "launch_start": launched}
    columns = {name: np.array([round(US * each) for each in values]) for name, values in times.items()}
    return Gpu(**columns, stream=np.array(stream), launch=np.arange(len(start)), **more)


@pytest.mark.parametrize(
    ("communicates", "since_us", "waits_for"), [(False, 58, 0), (False, 62, -1), (True, 480, 0), (True, 520, -1)]
)
def test_a_late_start_waited_for_what_ended_so_long_before(communicates: bool, since_us: float, waits_for: int) -> None:
    """Of another stream: 60 us, and of a collective, which needs free multiprocessors, half a millisecond."""
    gpu = activities([0, 10 + since_us], [10, 900], [0, 5], [1, 2], is_communication=np.array([False, communicates]))
    late = np.array([False, True])

    edge, _ = device._edges(gpu, gpu.launch_start, late, np.zeros(2, bool))

    assert edge[1] == waits_for


@pytest.mark.parametrize(("ago_us", "stream"), [(48, 1), (52, 2)])
def test_a_call_waited_for_what_ended_fifty_microseconds_before_it_at_most(ago_us: float, stream: int) -> None:
    """Else for the stream that was launched on last."""
    gpu = activities([0, 0], [100 - ago_us, 5], [0, 3], [1, 2])
    calls: Any = SimpleNamespace(start=np.array([10 * US]), end=np.array([100 * US]))
    starts: Any = SimpleNamespace(due=gpu.launch_start)

    target, _ = waits._synchronised(gpu, calls, starts, gpu.stream, np.array([0]))

    assert target[0] == waits.ONE_STREAM - stream


@pytest.mark.parametrize(("after_us", "seen"), [(4.8, True), (5.2, False)])
def test_the_clocks_of_host_and_device_disagree_by_five_microseconds_at_most(after_us: float, seen: bool) -> None:
    """What ends behind the call by no more was what it waited for."""
    gpu = activities([0, 0], [90, 100 + after_us], [0, 3], [1, 1])
    calls: Any = SimpleNamespace(start=np.array([10 * US]), end=np.array([100 * US]))
    starts: Any = SimpleNamespace(due=gpu.launch_start)

    _, end = waits._synchronised(gpu, calls, starts, gpu.stream, np.array([0]))

    assert end[0] == round(US * (100 + after_us if seen else 90))


@pytest.mark.parametrize(("pause", "near"), [(9, True), (11, False)])
def test_a_pause_of_a_tenth_of_a_step_before_it_is_a_part_of_it(
    pause: int, near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = SimpleNamespace(host=np.array([[0, 100], [100 + pause, 200 + pause]]))
    monkeypatch.setattr(replay, "host_steps", lambda trace: steps)

    found = replay._host_windows(SimpleNamespace(steps=steps, trace=None), (1,))  # type: ignore[arg-type]

    assert found[0, 0] == (100 if near else 100 + pause)
