"""Let children forked by a job whose profiler has run end as they would have without it.

Kineto leaves a thread behind that no fork inherits, and the destructor of its static state waits for that thread: a
child that ends through `exit` would hang. Such a child leaves before the destructors of the libraries that were loaded
before the fork; Python's own ending, and the exit functions that the child registers, run as always.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ..guard import quietly
from ..hand_over import in_forked_children

_leave: Callable[[], object] | None = None


def _nothing() -> bool:
    return False


_recording: Callable[[], bool] = _nothing


def profiler_started(recording: Callable[[], bool]) -> None:
    """Note that Kineto is in use from now on; `recording` returns whether the probe's profiler runs."""
    global _leave, _recording
    _recording = recording
    if _leave is None:
        _leave = _leaving() or (lambda: None)
        in_forked_children(_in_child, "a forked process may hang as it ends")


def _in_child() -> None:
    quietly(_leave or (lambda: None))
    if _recording():
        quietly(record_nothing)


def record_nothing() -> None:
    """Disable the profiler's callbacks, in a forked child or for an abandoned profiler: nobody would read them."""
    import torch

    torch._C._autograd._enable_record_function(False)


def _leaving() -> Callable[[], object] | None:
    """A function that registers glibc's `_exit`, with the exit status, to run before the handlers registered so far."""
    library: Any = quietly(lambda: ctypes.CDLL(None))
    if library is None or not hasattr(library, "on_exit") or not hasattr(library, "fcloseall"):
        return None
    library.on_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    end = ctypes.cast(library._exit, ctypes.c_void_p)
    flush = ctypes.cast(library.fcloseall, ctypes.c_void_p)

    def leave() -> None:
        library.on_exit(end, None)
        library.on_exit(flush, None)  # registered later, so it runs before

    return leave
