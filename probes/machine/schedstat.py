"""The kernel's own count of a task: its time on a core, and its time ready to run without one."""

from __future__ import annotations

import os


def schedstat(task: str) -> tuple[int, int]:
    """Nanoseconds on a core, and ready without one, since the task began.

    The file is opened for each look, and no descriptor stays open in the job.

    Args:
        task: its folder below /proc.

    Raises:
        OSError: it has ended, or the kernel keeps no count.
        ValueError: the file does not hold three numbers.
    """
    file = os.open(f"{task}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        on_core, ready, _ = os.read(file, 128).split()
    finally:
        os.close(file)
    return int(on_core), int(ready)
