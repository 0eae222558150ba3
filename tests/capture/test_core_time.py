"""The kernel's count of a thread's time on a core and without one, as the probe takes it at each recorded step."""

import os
import threading
import time
from pathlib import Path

import pytest

from diagnose.probes.facts.record import _steps
from diagnose.probes.recording.clock import StepClock
from diagnose.probes.recording.core_time import CoreTime


def tasks(root: Path, **of: str) -> None:
    """The files of a kernel with these scheduler statistics, by the thread's number and name."""
    for thread, schedstat in of.items():
        number, _, name = thread.removeprefix("t").partition("_")
        folder = root / "proc/self/task" / number
        folder.mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n", encoding="ascii")
        (folder / "schedstat").write_text(schedstat, encoding="ascii")


def test_it_adds_up_the_training_thread_and_those_of_autograd(tmp_path: Path) -> None:
    own = threading.get_native_id()
    tasks(tmp_path, **{f"t{own}_python": "500 40 7\n", f"t{own + 1}_pt_autograd_0": "70 2 1\n", "t1_other": "9 9 9\n"})
    cores = CoreTime(tmp_path)
    cores.look()

    assert cores.read() == (570, 42)


@pytest.mark.parametrize("schedstat", ["", "one two three\n", "5\n"], ids=["empty", "no numbers", "too few"])
def test_what_the_kernel_does_not_tell_is_unknown_and_never_zero(schedstat: str, tmp_path: Path) -> None:
    tasks(tmp_path, **{f"t{threading.get_native_id()}_python": schedstat})
    cores = CoreTime(tmp_path)
    cores.look()

    assert cores.read() is None


def test_a_system_without_such_files_gives_null_for_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StepClock(time.perf_counter_ns)
    monkeypatch.setattr(clock, "_cores", CoreTime(tmp_path))
    for _ in range(2):
        clock.step_begins("active")
        clock.step_ended("active")

    assert _steps(None, clock, None)["steps"]["active_core_wait_ns"] == [None, None]  # type: ignore[index]


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel keeps no scheduler statistics")
def test_recorded_steps_alone_have_the_times_of_this_thread() -> None:
    clock = StepClock(time.perf_counter_ns)
    for phase in ("waiting", "control", "warmup", "active", "active", "control_after"):
        clock.step_begins(phase)
        until = time.thread_time_ns() + 5_000_000
        while time.thread_time_ns() < until:
            pass
        clock.step_ended(phase)
    clock.rest()

    times = clock.core_times()
    assert len(times) == 2
    for each in times:
        assert each is not None
        assert each[0] >= 4_000_000
        assert each[1] >= 0
