"""The thread that reads the machine: it begins and ends with the capture, costs little, and gives way."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from diagnose.probes.machine import sampling  # noqa: E402
from diagnose.probes.machine.sampling import MachineSampler  # noqa: E402

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("threads_end")]


class Host:
    """Counts how often it is read."""

    def __init__(self) -> None:
        self.read = 0

    def gauges(self) -> dict[str, float]:
        self.read += 1
        return {"run_queue": float(self.read)}

    def counters(self) -> dict[str, float]:
        return {}

    def limits(self) -> dict[str, float]:
        return {"cores": 2.0}


def until(condition: Callable[[], bool]) -> None:
    """Wait for the thread, a minute at most."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("the thread does not get there")


def sampler(host: Host) -> MachineSampler:
    return MachineSampler(host, interval_s=0.02)  # type: ignore[arg-type]


def test_it_reads_until_it_is_stopped() -> None:
    host = Host()
    reader = sampler(host)
    reader.start()
    until(lambda: host.read >= 3)
    reader.window_begins()
    until(lambda: host.read >= 6)
    reader.stop()
    read, facts = host.read, reader.facts()
    assert isinstance(facts["in_window"], int)

    assert facts["samples"] == read
    assert 1 <= facts["in_window"] <= read - 3
    assert facts["limits"] == {"cores": 2.0}
    assert facts["why_none"] is None
    assert host.read == read


def test_a_profiler_of_the_job_ends_it_before_it_begins() -> None:
    host = Host()
    reader = sampler(host)
    reader.start()
    until(lambda: host.read >= 1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        read = host.read
        time.sleep(0.1)

    assert host.read == read
    assert "a profiler of its own" in str(reader.facts()["why_none"])


def test_what_fails_while_reading_is_told_and_raised_nowhere() -> None:
    class Broken(Host):
        def gauges(self) -> dict[str, float]:
            raise ValueError("no such file")

    reader = sampler(Broken())
    reader.start()
    until(lambda: bool(reader.why_none))
    reader.stop()

    assert reader.facts()["why_none"] == "the readings failed: ValueError"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST", 8)
    host = Host()
    reader = MachineSampler(host, interval_s=0.0001)  # type: ignore[arg-type]
    reader.start()
    until(lambda: host.read >= 40)
    reader.stop()
    facts: Any = reader.facts()

    assert facts["samples"] <= 8
    assert facts["gauges"]["run_queue"]["run"][0] == 1  # the first is kept


def test_a_forked_child_reads_nothing_and_can_stop() -> None:
    host = Host()
    reader = sampler(host)
    reader.start()
    until(lambda: host.read >= 1)
    child = os.fork()
    if not child:
        reader.stop()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    read = host.read
    until(lambda: host.read > read)  # the parent's thread goes on
    reader.stop()

    assert status == 0


def test_a_fork_that_does_not_wait_for_a_long_reading_ends_no_readings() -> None:
    class Slow(Host):
        def gauges(self) -> dict[str, float]:
            begun.set()
            over.wait(60)
            return super().gauges()

    begun, over, host = threading.Event(), threading.Event(), Slow()
    reader = sampler(host)
    reader.start()
    assert begun.wait(60)
    child = os.fork()
    if not child:
        os._exit(0)
    _, status = os.waitpid(child, 0)
    over.set()
    until(lambda: host.read >= 3)
    reader.stop()

    assert (status, reader.facts()["why_none"]) == (0, None)
