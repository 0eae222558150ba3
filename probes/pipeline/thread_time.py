"""Time for which the calling thread was ready to run and had no core."""

from __future__ import annotations


def queued_ns() -> int:
    """Nanoseconds for which this thread was ready to run and had no core; 0 if the kernel does not count them."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
