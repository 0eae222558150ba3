"""The system's work for the thread that runs a step: time in the kernel, and pages mapped, by its own count."""

from __future__ import annotations

import sys
from typing import Any

from ..guard import quietly


def system_work() -> tuple[int, int] | None:
    """Nanoseconds in the kernel, and pages mapped without reading a disk, since this thread began; None if the
    system keeps no such count of a thread.
    """
    if not sys.platform.startswith("linux"):
        return None
    import resource  # not on Windows

    usage: Any = quietly(lambda: resource.getrusage(resource.RUSAGE_THREAD))
    return None if usage is None else (round(usage.ru_stime * 1e9), usage.ru_minflt)
