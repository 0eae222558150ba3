"""Passes over a DataLoader: its batches, and the time that each pass took to deliver its first one."""

from __future__ import annotations

from collections import deque
from typing import Any

from ..introspection import loader_length, own_attribute, start_method

PASSES = 64


class LoaderPasses:
    """The passes over one loader, or over loaders that are made anew for each pass and alike.

    Attributes:
        waited_ns: wall time of all fetches, with the making of iterators; `looped_ns` of those between steps alone.
        gone_through: passes whose last batch was fetched.
    """

    def __init__(self, loader: Any, workers: int) -> None:
        self.workers = workers
        self.batches_told = loader_length(loader)
        self.waited_ns = self.looped_ns = self.fetched = self.gone_through = 0
        self._persistent = own_attribute(loader, "persistent_workers") is True
        self._method = start_method(loader) if workers else None
        self._first_ns: deque[int] = deque(maxlen=PASSES)
        self._steps: deque[int] = deque(maxlen=PASSES)
        self._seen = self._anew = self._in_pass = 0
        self._counts: deque[int] = deque(maxlen=PASSES)
        self._objects: set[int] = set()
        self._worker_cpu_ns = self._made = 0
        self._last_cpu: tuple[int, int] | None = None

    def begins(self, loader: Any, anew: bool, step: int) -> None:
        """Count a pass that begins in a step; `anew` if its iterator, and with it workers, is made for it.

        Batches of the pass before are counted, because the length of a loader may be the job's own code.
        """
        if self._in_pass:
            self._counts.append(self._in_pass)
        self._in_pass = 0
        self._seen += 1
        self._steps.append(step)
        self._anew += anew
        if len(self._objects) < PASSES:
            self._objects.add(id(loader))
        if anew:
            self._last_cpu = None

    def fetched_in(self, wall_ns: int, first: bool, in_loop: bool) -> None:
        """Count a batch that was waited for so long; the first of a pass includes the making of its iterator."""
        self.waited_ns += wall_ns
        self.looped_ns += wall_ns if in_loop else 0
        self.fetched += 1
        self._in_pass += 1
        if first:
            self._first_ns.append(wall_ns)

    def workers_used(self, iterator: Any, cpu_ns: int) -> None:
        """Note the CPU time of all workers of an iterator so far, after each of its batches."""
        if self._last_cpu is not None and self._last_cpu[0] == id(iterator) and cpu_ns >= self._last_cpu[1]:
            self._worker_cpu_ns += cpu_ns - self._last_cpu[1]
            self._made += 1
        self._last_cpu = id(iterator), cpu_ns

    def facts(self) -> dict[str, object]:
        """The passes as the record holds them; nanoseconds."""
        return {
            "batches": max(self._counts) if self._counts else self.batches_told,
            "length": self.batches_told,
            "gone_through": self.gone_through,
            "seen": self._seen,
            "anew": self._anew,
            "loaders": len(self._objects),
            "persistent": self._persistent,
            "start_method": self._method,
            "steps": list(self._steps),
            "first_wait_ns": list(self._first_ns),
            "fetched": self.fetched,
            "waited_ns": self.waited_ns,
            "batch_cpu_ns": self._worker_cpu_ns // self._made if self._made else None,
        }
