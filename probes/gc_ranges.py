"""Ranges around Python's garbage collections: torch.profiler records them only together with every Python call."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

from .ranges import Range

PYTHON_GC = "Python GC"  # as torch.profiler calls them


def watch_collections() -> Callable[[], None]:
    """Puts a range around each collection from now on; returns what ends that. Neither ever raises."""
    running: dict[int, Range] = {}

    def told(phase: str, info: dict[str, int]) -> None:
        try:
            thread = threading.get_ident()
            if phase == "start":
                running[thread] = Range(PYTHON_GC)
                running[thread].__enter__()
            elif thread in running:
                running.pop(thread).__exit__()
        except Exception:
            return

    def release() -> None:
        if told in gc.callbacks:
            gc.callbacks.remove(told)

    gc.callbacks.append(told)
    return release
