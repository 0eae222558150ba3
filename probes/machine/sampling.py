"""Read GPU and host once a second in a thread of its own, and keep some of the readings.

The readings come from the driver's library and from /proc, never from torch: they never wait for the device, and never
appear in a trace.
"""

from __future__ import annotations

import _thread
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from ..guard import quietly
from ..recording import other_profilers
from ..side_thread import SideThread
from .host_readings import HostReadings
from .nvml import address_of
from .nvml_readings import GpuReadings
from .summary import Samples

INTERVAL_S = 1.0
TRAFFIC_EVERY = 10  # readings: each holds the driver for 40 ms
MOST = 512  # readings that are kept; of more every second one goes, and as many come from then on
_NO_GPU_YET = "the training thread computed on no GPU when the readings began"


class Keeps(Protocol):
    """The store that takes the readings."""

    def add(
        self, at_s: float, gauges: Mapping[str, float], counters: Mapping[str, float], reasons: Iterable[str] | None
    ) -> int:
        """Add a reading; return the number of kept ones."""

    def thin_out(self) -> None:
        """Drop every second reading, since they are too many; from now on half as many come."""


class Reader:
    """Reads the machine from `start` to `stop`, in a thread of its own; the training thread calls these.

    Nothing is raised; `why_none` is why there are no readings, `why_no_gpu` why there are none of a GPU.

    Args:
        keeps: the store of the readings.
        most: that it keeps.
        interval_s: seconds between two, twice as many each time that there are too many.
        host: what is read of the host.
        traffic: whether bytes over PCIe and NVLinks are read, too.
        links_every: readings from one of the GPU's links and errors to the next; the last one has them, too.
        called: of several readers of one name the last gives way to a profiler of the job.
    """

    def __init__(
        self,
        keeps: Keeps,
        most: int,
        interval_s: float = INTERVAL_S,
        *,
        host: HostReadings | None = None,
        traffic: bool = True,
        links_every: int = 1,
        called: str = "readings of the machine",
    ) -> None:
        self.why_none, self.why_no_gpu = "", _NO_GPU_YET
        self._keeps, self._most, self._called = keeps, most, called
        self._traffic, self._links_every = traffic, links_every
        self._host = host or HostReadings(_thread.get_native_id())
        self._gpu: GpuReadings | None = None
        self._asked: tuple[str, str] | None = None
        self._interval_s, self._usual_s = interval_s, interval_s
        self._over = False
        self._cost_ns = self._taken = 0
        self._beside: SideThread | None = None

    def start(self) -> None:
        """Read from now on, until the job starts a profiler of its own."""
        if self._beside is not None or self._over:
            return
        other_profilers.watch()
        other_profilers.tell(self.give_way, self._called)
        if other_profilers.running():
            self.why_none = "a profiler of the job is on, beside which nothing is read"
            return
        self._see_gpu()
        _guard_forks()
        try:
            self._beside = SideThread(self._run)
        except RuntimeError:
            self.why_none = "no thread could be started"

    def stop(self) -> None:
        """Read once more, and then no more."""
        self._over = True
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.stop(within_s=1)

    @property
    def reads(self) -> bool:
        """Whether it still reads: it ends for good when it gives way to a profiler."""
        return self._beside is not None

    def give_way(self) -> None:
        """Stop reading: a profiler of the job begins, which may record calls of any thread."""
        if self._beside is not None:
            self.why_none = "the job started a profiler of its own, beside which nothing is read"
            self.stop()

    def _see_gpu(self) -> None:
        """Note the GPU that this thread computes on: another thread's may differ."""
        if self._asked is None:
            self._asked = quietly(_gpu_of_this_thread)  # type: ignore[assignment]

    def _run(self, beside: SideThread) -> None:
        try:
            while True:
                _looking.acquire()
                try:
                    self._read()
                finally:
                    quietly(_looking.release)  # a fork that waited in vain has released it already
                if self._over:
                    return
                beside.wait(self._interval_s)
        except BaseException as error:
            self.why_none = f"the readings failed: {type(error).__name__}"

    def _read(self) -> None:
        if self._asked is not None and any(self._asked):
            self._gpu = self._gpu_at(*self._asked)
            self._asked = ("", "")
        gauges, counters, reasons = self._host.gauges(), self._host.counters(), None
        if self._gpu is not None:
            reasons = self._gpu.reasons()
            self._read_gpu(self._gpu, gauges, counters)
        self._taken += 1
        if self._keeps.add(time.perf_counter(), gauges, counters, reasons) >= self._most:
            self._keeps.thin_out()
            self._interval_s *= 2
        self._cost_ns = time.thread_time_ns()

    def _read_gpu(self, gpu: GpuReadings, gauges: dict[str, float], counters: dict[str, float]) -> None:
        gauges.update(gpu.gauges())
        if self._over or self._taken % self._links_every == 0:
            gauges.update(gpu.links())
            counters.update(gpu.errors())
        if self._traffic:
            counters.update(gpu.moved())
            if self._taken % TRAFFIC_EVERY == 0:
                gauges.update(gpu.traffic())

    def _gpu_at(self, uuid: str, address: str) -> GpuReadings | None:
        if address:
            self._host.near(address)
        try:
            gpu = GpuReadings(uuid) if uuid else None
        except Exception as error:
            self.why_no_gpu = f"the driver's library (NVML) does not answer: {error}"[:200]
            return None
        self.why_no_gpu = "" if gpu is not None else "torch does not tell which GPU it is"
        return gpu


class MachineSampler(Reader):
    """Keeps readings of the run and of the window, once a second, for the record."""

    def __init__(self, host: HostReadings | None = None, interval_s: float = INTERVAL_S) -> None:
        self._samples = Samples()
        super().__init__(self._samples, MOST, interval_s, host=host)

    def window_begins(self) -> None:
        """Mark the readings from now on as the window's too, and read at once."""
        self._see_gpu()
        self._samples.window_begins()
        self._interval_s = self._usual_s
        if self._beside is not None:
            self._beside.wake()

    def facts(self) -> dict[str, object]:
        """The readings in short, for the record, and the CPU time that the reading took."""
        told: list[Any] = [quietly(reader.limits) for reader in (self._host, self._gpu) if reader is not None]
        return {
            "interval_s": self._interval_s,
            **self._samples.facts(),
            "limits": {name: value for limits in told for name, value in (limits or {}).items()},
            "cost_ms": self._cost_ns / 1e6,
            "why_none": self.why_none or None,
        }


def _gpu_of_this_thread() -> tuple[str, str] | None:
    """The uuid of the GPU that this thread computes on, and its address on the PCI bus; None before there is one."""
    torch: Any = sys.modules["torch"]
    if not torch.cuda.is_initialized():
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return str(getattr(properties, "uuid", "")), address_of(properties)


_looking = _thread.allocate_lock()  # held while a library that has locks of its own is called
_forks_are_guarded = False
_LONGEST_WAIT_S = 0.5  # of a fork: a driver that hangs holds up no job


def _guard_forks() -> None:
    """Let no fork happen between two readings: the child would never release a lock of the driver's library.

    The registered functions are built-in ones: an exception of the job's would be lost within a function of ours.
    """
    global _forks_are_guarded
    register: Callable[..., None] | None = getattr(os, "register_at_fork", None)
    if not _forks_are_guarded and register is not None:
        _forks_are_guarded = True
        before = partial(_looking.acquire, True, _LONGEST_WAIT_S)
        register(before=before, after_in_parent=_looking.release, after_in_child=_looking.release)
