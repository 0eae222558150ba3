"""The bound of the loader: CPU time over wall time of the process or thread that loads, while a batch is awaited.

The one that loads is a worker process with all its threads, or without workers the thread that fetches. On Linux the
CPU clock of a process or thread has a number that is made of its id (clock_getcpuclockid(3)), so that it is read by one
system call, from outside and without a file; elsewhere the CPU time of worker processes is not known.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ..introspection import own_attribute

FETCHES = 256
THERE_NS = 1_000_000  # a batch of a worker that comes sooner was there already, and shows nothing of the work
LEAST_BUSY = 0.05  # of the time: a thread below that does not load
_PROCESS, _THREAD = 2, 6  # the kernel's scheduler clock, of a thread group and of one thread
_READABLE = sys.platform == "linux" and hasattr(time, "clock_gettime_ns")
ELSEWHERE = "the CPU time of loader workers can be read on Linux only"


class LoaderWork:
    """The work of loaders with equally many workers, summed over the fetches that were waited for.

    Attributes:
        workers: worker processes, 0 without.
        wait_ns: wall time of the last fetches, the oldest first.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.wait_ns: deque[int] = deque(maxlen=FETCHES)
        self._fetches = self._wall = self._own = self._together = self._process = 0
        self._busy = 0
        self._unmeasured = ""

    @property
    def waited_ns(self) -> int:
        """Wall time of the fetches whose CPU time is known."""
        return self._wall

    def add(self, wall_ns: int, before: dict[int, int], after: dict[int, int], own: int, process_ns: int) -> None:
        """Count a fetch, by the CPU clocks of workers or threads before and after it; `own` is the one waited for."""
        used = {key: after[key] - before[key] for key in before.keys() & after.keys()}
        if own not in used:
            self.unmeasured("the worker that was waited for is gone")
            return
        self._fetches += 1
        self._wall += wall_ns
        self._own += used[own]
        self._together += sum(used.values())
        self._process += process_ns
        self._busy += wall_ns * sum(ns > LEAST_BUSY * wall_ns for ns in used.values())

    def unmeasured(self, because: str) -> None:
        """Note why the CPU time of a fetch is not known."""
        self._unmeasured = because

    def facts(self) -> dict[str, object]:
        """The record's `loading`; nanoseconds."""
        measured = self._fetches > 0
        return {
            "workers": self.workers,
            "fetches": self._fetches,
            "wait_ns": list(self.wait_ns),
            "wall_ns": self._wall if measured else None,
            "cpu_ns": self._own if measured else None,
            "together_cpu_ns": self._together if measured else None,
            "process_cpu_ns": self._process if measured else None,
            "busy": self._busy / self._wall if self._wall else None,
            "unmeasured": None if measured else self._unmeasured or "no batch was waited for after the first ones",
        }


class Loaders:
    """The work of a job's loaders, by their number of workers."""

    def __init__(self) -> None:
        self._by_workers: dict[int, LoaderWork] = {}

    def fetching(self, iterator: Any) -> Callable[[], None] | None:
        """Begin to measure a fetch of torch's DataLoader iterator; call what is returned when the batch is there.

        The first batch of each worker is left out: it holds the start of the worker.
        """
        workers = workers_of(iterator)
        if (own_attribute(iterator, "_num_yielded") or 0) < max(1, len(workers)):
            return None
        work = self._by_workers.setdefault(len(workers), LoaderWork(len(workers)))
        own, clocks = (_awaited(iterator), workers) if workers else (threading.get_ident(), {})
        began = time.perf_counter_ns()  # around the CPU clocks, so that no CPU time exceeds it, even after a delay
        before, process_ns = _read(clocks, work), time.process_time_ns()

        def fetched() -> None:
            waited_ns = time.perf_counter_ns() - began
            work.wait_ns.append(waited_ns)
            if own is not None and before and not (workers and waited_ns < THERE_NS):
                after, process_cpu_ns = _read(clocks, work), time.process_time_ns() - process_ns
                work.add(time.perf_counter_ns() - began, before, after, own, process_cpu_ns)

        return fetched

    def facts(self) -> dict[str, object] | None:
        """Facts of the loader that the loop waited for longest; None if none was iterated."""
        each = list(self._by_workers.values())
        return max(each, key=lambda work: sum(work.wait_ns)).facts() if each else None


def workers_of(iterator: Any) -> dict[int, int | None]:
    """The process of each worker, by its number."""
    processes = own_attribute(iterator, "_workers") or ()
    return {number: own_attribute(own_attribute(process, "_popen"), "pid") for number, process in enumerate(processes)}


def _awaited(iterator: Any) -> int | None:
    """The worker whose batch is the next one; None if batches come in any order."""
    if own_attribute(iterator, "_in_order") is False:
        return None
    task = (own_attribute(iterator, "_task_info") or {}).get(own_attribute(iterator, "_rcvd_idx"))
    return task[0] if task else None


def _read(workers: dict[int, int | None], work: LoaderWork) -> dict[int, int]:
    """CPU time by worker, or without workers by thread of Python; nanoseconds."""
    if not workers:
        return of_threads()
    if not _READABLE:
        work.unmeasured(ELSEWHERE)
    return cpu_of(workers)


def cpu_of(workers: dict[int, int | None]) -> dict[int, int]:
    """CPU time of each worker process in nanoseconds, by its number; empty if it cannot be read."""
    return _clocks(workers.items(), _PROCESS) if _READABLE else {}


def of_threads() -> dict[int, int]:
    """CPU time of each thread of Python, by its identity; nanoseconds."""
    here = threading.get_ident()
    running = dict(threading._active) if _READABLE else {}  # type: ignore[attr-defined]
    others = ((ident, own_attribute(thread, "_native_id")) for ident, thread in running.items() if ident != here)
    return {**_clocks(others, _THREAD), here: time.thread_time_ns()}


def _clocks(ids: Iterable[tuple[int, int | None]], kind: int) -> dict[int, int]:
    found = {}
    for key, number in ids:
        if number:
            try:
                found[key] = time.clock_gettime_ns(~number << 3 | kind)
            except OSError:  # it has ended
                continue
    return found
