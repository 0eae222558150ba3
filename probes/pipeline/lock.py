"""Measure whether loading holds Python's lock (the GIL), so that threads would take turns but processes would not.

A second thread runs during the loading. One that runs Python gets what the loading leaves of the lock; one that hashes
needs no lock, and shows whether the host has a second core to spare.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ..hand_over import a_thread

SWITCH_S = 5e-4  # a thread that releases the lock for a moment gets it back soon
_HASHED = bytes(8 << 20)  # hashing so much releases the lock for long


def beside_others(load: Callable[[], object], seconds: float) -> dict[str, Any]:
    """CPU time of the loading, on all its threads, and of a second thread: first in Python, then one without the lock.

    Args:
        load: loads a batch.
        seconds: for each of the two at most, one batch at least.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        return {"in_python": _beside(load, _count, seconds), "without_lock": _beside(load, _hash, seconds)}
    finally:
        sys.setswitchinterval(usual)


def _beside(load: Callable[[], object], turn: Callable[[], object], seconds: float) -> dict[str, int]:
    begins = threading.Event()
    over = threading.Event()
    spent: list[int] = []

    def work() -> None:
        begins.wait()
        began = time.thread_time_ns()
        while not over.is_set():
            turn()
        spent.append(time.thread_time_ns() - began)

    thread = a_thread(work, "nothing computes beside the loading")
    thread.start()
    cpu, began = time.process_time_ns(), time.perf_counter_ns()
    begins.set()  # after the read of the process's clock, so that the thread's time is a part of it
    try:
        while True:
            load()
            if time.perf_counter_ns() - began > seconds * 1e9:
                break
    finally:
        over.set()
        thread.join()
    together_ns, wall_ns = time.process_time_ns() - cpu, time.perf_counter_ns() - began  # with the last turn beside
    return {"wall_ns": wall_ns, "loading_ns": max(together_ns - sum(spent), 0), "beside_ns": sum(spent)}


def _count() -> None:
    for _ in range(10_000):
        pass


def _hash() -> None:
    hashlib.sha256(_HASHED).digest()
