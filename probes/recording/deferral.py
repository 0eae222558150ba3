"""The job's signal handlers, held back for as long as the profiler is between two of its states.

torch.profiler does not survive an exception in the midst of being started or stopped. Python's own table of handlers is
changed, for a moment; the system's is not: a signal that is ignored, or whose default action ends the process, stays
so, and tools that took a signal without Python's knowledge keep it.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident, main_thread
from typing import Any

from ..guard import quietly

Handler = Callable[[int, Any], Any]
_ROOM = 512  # bytes, more than any system's `struct sigaction`
_library: Any = None


@contextmanager
def handlers_wait() -> Iterator[None]:
    """Delay Python's signal handlers, in the main thread, to the end of the block: one call for each signal."""
    if get_ident() != main_thread().ident:  # no handler ever runs here
        yield
        return
    came: list[int] = []
    held: dict[int, Any] = {}

    def later(number: int, _frame: Any) -> None:
        came.append(number)

    try:
        for number in sorted(signal.valid_signals()):
            previous = signal.getsignal(number)
            if callable(previous):
                held[number] = previous
                _set(number, later)
        yield
    finally:
        _give_back(held, came, later)


def _give_back(held: dict[int, Any], came: list[int], later: Handler) -> None:
    """Restore each handler and deliver every signal, whatever a handler raises or changes in between."""
    try:
        while held:
            number = next(iter(held))
            if signal.getsignal(number) is later:
                _set(number, held[number])
            del held[number]
        while came:
            _deliver(came.pop(0))
    finally:
        if held or came:
            _give_back(held, came, later)


def _set(number: int, handler: Handler) -> None:
    """Change Python's handler alone: the system's action at the signal is restored, with its flags."""
    library, before = _libc(), ctypes.create_string_buffer(_ROOM)
    known = library is not None and library.sigaction(number, None, before) == 0
    signal.signal(number, handler)
    if known and signal.getsignal(number) is handler:
        library.sigaction(number, before, None)


def _deliver(number: int) -> None:
    """Call the handler as Python would; the rest of an arrival, such as a byte for an event loop, is done already."""
    handler = signal.getsignal(number)
    if callable(handler):
        handler(number, sys._getframe())


def _libc() -> Any:
    global _library
    if _library is None:
        _library = quietly(lambda: ctypes.CDLL(None)) or False
    return _library if _library and hasattr(_library, "sigaction") else None
