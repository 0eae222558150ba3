"""For how long the calling thread would compute and has no core."""

from __future__ import annotations


def queued_ns() -> int:
    """For how long this thread was ready to run and had no core, since it began; 0 if the kernel does not tell."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
