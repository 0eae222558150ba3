"""Endings that cut a window short: signals and the interpreter's exit. What was recorded is written first."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class SignalGuard:
    """While it holds, SIGTERM and SIGINT first flush the window, then do what they did before."""

    def __init__(self, flush: Callable[[str], object]) -> None:
        self._flush = flush
        self._previous: dict[int, Any] = {}
        self._pid = os.getpid()

    def hold(self) -> None:
        """Take the signals; without effect outside the main thread, where Python allows no handlers."""
        for number in SIGNALS:
            previous = signal.getsignal(number)
            if previous in (None, signal.SIG_IGN):  # not set from Python, or ignored: stays so
                continue
            try:
                signal.signal(number, self._handle)
            except ValueError:
                return
            self._previous[number] = previous

    def release(self) -> None:
        """Give the signals back, unless the job has taken them meanwhile."""
        for number, previous in self._previous.items():
            try:
                if signal.getsignal(number) == self._handle:
                    signal.signal(number, previous)
            except ValueError:
                return
        self._previous = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        previous = self._previous.get(number, signal.SIG_DFL)
        if os.getpid() == self._pid:  # a forked DataLoader worker has inherited this handler
            self._flush(signal.Signals(number).name)
        if callable(previous):
            previous(number, frame)
            return
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
