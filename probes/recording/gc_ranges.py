"""Python's garbage collections as ranges: torch.profiler records them only together with every Python call.

A signal handler of the job runs wherever Python code runs, and its exception within a callback of the collector is
lost. So the callback consists of built-in parts, without a line of Python: looking up the phase as an attribute
advances an iterator that records time and thread.
"""

from __future__ import annotations

import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

PYTHON_GC = "Python GC"  # as torch.profiler calls them
MOST = 100_000
Mark = tuple[int, int]


class Collections:
    """Begin and end of each collection from now on, until `stop`."""

    def __init__(self) -> None:
        self._starts: deque[Mark] = deque(maxlen=MOST)
        self._stops: deque[Mark] = deque(maxlen=MOST)
        phases = {"start": _noting(self._starts), "stop": _noting(self._stops)}
        self._callback = partial(getattr, type("Phases", (), phases)())  # called with a phase and what is known of it
        gc.callbacks.append(self._callback)

    def stop(self) -> None:
        """Stop recording."""
        gc.callbacks[:] = [callback for callback in gc.callbacks if callback is not self._callback]

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Begin and end of each collection in nanoseconds since the epoch, and the thread by the system's number."""
        stops = iter(list(self._stops))
        for begin, thread in list(self._starts):  # one at a time: the next stop behind a start is its own
            end = next((at for at, _ in stops if at >= begin), None)
            if end is not None:
                yield begin, end, thread

    def taken_ns(self) -> int:
        """Nanoseconds of all collections since the last look."""
        spent_ns = sum(end - begin for begin, end, _ in self.ranges())
        self._starts.clear()
        self._stops.clear()
        return spent_ns


def _noting(into: deque[Mark]) -> property:
    now: Callable[[], int] = time.time_ns
    marks: Iterator[Mark] = zip(iter(now, None), iter(threading.get_native_id, None), strict=False)
    return property(partial(next, map(into.append, marks)))


def as_events(collections: Collections, process: int, base_ns: int) -> list[dict[str, Any]]:
    """The collections as Kineto's range events: microseconds since `base_ns`."""
    return [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": PYTHON_GC,
            "pid": process,
            "tid": thread,
            "ts": (begin - base_ns) / 1000,
            "dur": (end - begin) / 1000,
            "args": {},
        }
        for begin, end, thread in collections.ranges()
    ]
