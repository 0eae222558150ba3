"""CPU time of the threads that run a step, and their time ready to run without a core, by the kernel's own count."""

from __future__ import annotations

import _thread
import os
from pathlib import Path

from ..guard import quietly
from ..machine.schedstat import schedstat

_AUTOGRAD = "pt_autograd"  # torch's threads that run a backward pass on a device; on a CPU the calling thread does


class CoreTime:
    """Reads both for the thread that makes it and for autograd's threads of devices, which work while it waits.

    Args:
        root: the folder of /proc.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._tasks = root / "proc/self/task"
        self._thread = _thread.get_native_id()
        self._known: tuple[int, ...] = ()

    def look(self) -> None:
        """See which threads there are: those of autograd begin with the first backward pass."""
        self._known = (self._thread, *self._of_autograd())

    def read(self) -> tuple[int, int] | None:
        """Nanoseconds on a core, and ready without one, since the threads began; None if the kernel keeps no count."""
        told = quietly(lambda: [schedstat(f"{self._tasks}/{thread}") for thread in self._known])
        if not isinstance(told, list) or not told:
            return None
        return sum(cpu for cpu, _ in told), sum(waited for _, waited in told)

    def _of_autograd(self) -> list[int]:
        tasks = quietly(lambda: [int(task) for task in os.listdir(self._tasks)])
        others = [thread for thread in tasks if thread != self._thread] if isinstance(tasks, list) else []
        return [thread for thread in others if self._name(thread).startswith(_AUTOGRAD)]

    def _name(self, thread: int) -> str:
        name = quietly(lambda: (self._tasks / str(thread) / "comm").read_text(encoding="ascii", errors="replace"))
        return name if isinstance(name, str) else ""
