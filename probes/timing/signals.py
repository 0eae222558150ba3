"""A signal that asks for a window; it is only used if the job has left its default handling."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from ..hand_over import on_signal


class SignalFlag:
    """Sets `came` when the signal comes, and does nothing else."""

    def __init__(self, name: str) -> None:
        self.came = False
        self._name = name
        self._owner = os.getpid()
        self._number: int | None = None
        self._handler: Callable[..., Any] | None = None

    def install(self) -> str:
        """Take the signal; return "", or why it cannot be taken."""
        number = getattr(signal, self._name, None)
        if number is None:
            return f"this system has no {self._name}"
        if threading.current_thread() is not threading.main_thread():
            return "the training is not in the main thread"
        if signal.getsignal(number) is not signal.SIG_DFL:
            return f"{self._name} is the job's own"
        self._handler = on_signal(number, self._heard, "the signal asks for no window")
        self._number = number
        return ""

    def given_up(self) -> bool:
        """Whether the job has taken the signal for itself since."""
        return self._number is not None and signal.getsignal(self._number) is not self._handler

    def restore(self) -> None:
        """Leave the signal as it was found, unless the job has taken it."""
        if self._number is not None and not self.given_up():
            signal.signal(self._number, signal.SIG_DFL)
        self._number = None

    def _heard(self, number: int, _frame: Any) -> None:
        if os.getpid() == self._owner:
            self.came = True
            return
        signal.signal(number, signal.SIG_DFL)  # in a forked child it acts as it would without us
        os.kill(os.getpid(), number)
