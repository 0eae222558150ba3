"""The limit of the loader: CPU time and run delay of the process or thread that loads, while a batch is awaited.

The one that loads is a worker process with all its threads, or without workers the thread that fetches. On Linux the
CPU clock of a process or thread has a number that is made of its id (clock_getcpuclockid(3)), so that it is read by one
system call, from outside and without a file; elsewhere the CPU time of worker processes is not known. The run delay,
for which a thread is ready and has no core, stands in its schedstat; of a worker those of all threads are added,
because the one that hands batches over and the one that loads them hold each other up.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from ..guard import quietly
from ..introspection import inner_loader, own_attribute
from ..machine.schedstat import schedstat
from .loader_passes import LoaderPasses

FETCHES = 256
THERE_NS = 1_000_000  # a batch of a worker that comes sooner was there already, and shows nothing of the work
MOST_ITERATORS = 64
LEAST_BUSY = 0.05  # of the time: a thread below that does not load
_PROCESS, _THREAD = 2, 6  # the kernel's scheduler clock, of a thread group and of one thread
_READABLE = sys.platform == "linux" and hasattr(time, "clock_gettime_ns")
HERE = "thread-self"  # this thread's name in /proc
NO_SCHEDSTAT = "the kernel does not count how long a task is ready and has no core (schedstat)"
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
        self._busy = self._ready = 0
        self._unmeasured = self._ready_unknown = ""
        self._bound: tuple[int, int | None] = 0, None

    @property
    def waited_ns(self) -> int:
        """Wall time of the fetches whose CPU time is known."""
        return self._wall

    def add(
        self,
        wall_ns: int,
        before: dict[int, int],
        after: dict[int, int],
        own: int,
        process_ns: int,
        ready_ns: int | None = None,
    ) -> None:
        """Count a fetch, by the CPU clocks of workers or threads before and after it; `own` is the one waited for.

        `ready_ns` is for how long that one was ready and had no core, None if the kernel does not count it.
        """
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
        if ready_ns is None:
            self._ready_unknown = NO_SCHEDSTAT
        else:
            self._ready += max(ready_ns, 0)

    def bound(self, iterator: Any, workers: dict[int, int | None]) -> None:
        """Note on how many cores the workers of an iterator may run, all of them together."""
        if self._bound[0] != id(iterator):
            self._bound = id(iterator), cores_of(workers.values())

    def _ready_ns(self) -> int:
        """The run delay over all fetches: the kernel counts one where it ends, maybe in a later fetch than it began."""
        return max(min(self._ready, self._wall - self._own), 0)

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
            "ready_ns": self._ready_ns() if measured and not self._ready_unknown else None,
            "ready_unmeasured": (self._ready_unknown or None) if measured else None,
            "worker_cores": self._bound[1],
            "busy": self._busy / self._wall if self._wall else None,
            "unmeasured": None if measured else self._unmeasured or "no batch was waited for after the first ones",
        }


class Loaders:
    """The work of a job's loaders by their number of workers, and the passes over each of them."""

    def __init__(self) -> None:
        self._by_workers: dict[int, LoaderWork] = {}
        self._passes: dict[tuple[int, int, int | None], LoaderPasses] = {}
        self._running: dict[int, _Pass] = {}

    def pass_begins(self, loader: Any, step: int) -> Callable[[Any], None]:
        """Begin to measure a pass over torch's DataLoader in a step; call what is returned with its iterator."""
        inner = inner_loader(loader)
        persists = own_attribute(inner, "_iterator") is not None
        workers = own_attribute(inner, "num_workers") or 0
        began = time.perf_counter_ns()

        def begun(iterator: Any) -> None:
            making_ns = time.perf_counter_ns() - began
            fresh = LoaderPasses(inner, workers)
            key = (id(own_attribute(inner, "dataset")), workers, fresh.batches_told)
            passes = self._passes.setdefault(key, fresh) if len(self._passes) < MOST_ITERATORS else fresh
            passes.begins(inner, not persists, step)
            while len(self._running) >= MOST_ITERATORS:
                self._running.pop(next(iter(self._running)))
            self._running[id(iterator)] = _Pass(passes, making_ns, persists and workers > 0)

        return begun

    def pass_ended(self, iterator: Any) -> None:
        """A pass has given its last batch."""
        running = self._running.pop(id(iterator), None)
        if running is not None:
            running.passes.gone_through += 1

    def fetching(self, iterator: Any, in_loop: bool = True) -> Callable[[], None] | None:
        """Begin to measure a fetch of torch's DataLoader iterator; call what is returned when the batch is there.

        The first batch of each worker is left out where it holds the start of the worker.
        """
        workers = workers_of(iterator)
        number = own_attribute(iterator, "_num_yielded") or 0
        running = self._running.get(id(iterator))
        steady = in_loop and number >= max(1, len(workers))
        if not steady and running is None:
            return None
        measured = steady or (in_loop and running is not None and running.persists)
        work = self._by_workers.setdefault(len(workers), LoaderWork(len(workers)))
        began = time.perf_counter_ns()
        done = self._cpu_of_fetch(work, iterator, workers) if measured else None

        def fetched() -> None:
            waited_ns = time.perf_counter_ns() - began
            if steady:
                work.wait_ns.append(waited_ns)
            if done is not None:
                done(waited_ns)
            if running is not None:
                running.passes.fetched_in(waited_ns + (0 if number else running.making_ns), not number, in_loop)
                if workers and (running.persists or steady):
                    running.passes.workers_used(iterator, sum(cpu_of(workers).values()))

        return fetched

    def _cpu_of_fetch(
        self, work: LoaderWork, iterator: Any, workers: dict[int, int | None]
    ) -> Callable[[int], None] | None:
        """Read the clocks of who loads; call what is returned with the wall time of the wait."""
        own, clocks = (_awaited(iterator), workers) if workers else (threading.get_ident(), {})
        of = workers.get(own) if workers and own is not None else HERE
        began = time.perf_counter_ns()  # around the CPU clocks, so that no CPU time exceeds it, even after a delay
        before, process_ns, ready = _read(clocks, work), time.process_time_ns(), ready_ns(of)
        if own is None or not before:
            return None

        def done(waited_ns: int) -> None:
            if workers:
                work.bound(iterator, workers)
            if workers and waited_ns < THERE_NS:
                return
            after, process_cpu_ns, ready_now = _read(clocks, work), time.process_time_ns() - process_ns, ready_ns(of)
            ready_meanwhile = None if ready is None or ready_now is None else ready_now - ready
            wall_ns = time.perf_counter_ns() - began
            work.add(wall_ns, before, after, own, process_cpu_ns, ready_meanwhile)

        return done

    def facts(self) -> dict[str, object] | None:
        """Facts of the loader that the loop waited for longest; None if none was iterated."""
        passes = max(self._passes.values(), key=lambda each: (each.looped_ns, each.waited_ns), default=None)
        each = list(self._by_workers.values())
        if not each:
            return None
        work = max(each, key=lambda work: sum(work.wait_ns))
        if passes is not None and not work.wait_ns:
            work = self._by_workers.get(passes.workers, work)
        return {**work.facts(), "passes": passes.facts() if passes is not None else None}


class _Pass(NamedTuple):
    """A pass under way: the making of its iterator, and whether its workers are those of an earlier pass."""

    passes: LoaderPasses
    making_ns: int
    persists: bool


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


def cores_of(processes: Iterable[int | None]) -> int | None:
    """Number of cores on which these processes may run, all of them together; None if it cannot be read."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    together: set[int] = set()
    for number in processes:
        own = quietly(partial(os.sched_getaffinity, number)) if number else None
        together |= own if isinstance(own, set) else set()  # of one that has ended it cannot be read
    return len(together) or None


def ready_ns(of: int | str | None) -> int | None:
    """Nanoseconds for which a process, with all its threads, or this thread (`HERE`) was ready and had no core.

    None if the kernel has no count.
    """
    if of is None:
        return None
    if of == HERE:
        return _delay_of(f"/proc/{HERE}")
    tasks = quietly(partial(os.listdir, f"/proc/{of}/task"))
    if not isinstance(tasks, list):  # it has ended, or this is no Linux
        return None
    known = [delay for task in tasks if (delay := _delay_of(f"/proc/{of}/task/{task}")) is not None]
    return sum(known) if known else None


def _delay_of(task: str) -> int | None:
    told = quietly(partial(schedstat, task))
    return told[1] if isinstance(told, tuple) else None


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
        clock = quietly(partial(time.clock_gettime_ns, ~number << 3 | kind)) if number else None
        if isinstance(clock, int):  # it has not ended
            found[key] = clock
    return found
