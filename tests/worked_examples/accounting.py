"""A step divided among compute, exposed communication, exposed copies and idle time, by unions of intervals."""

from diagnose import intervals as iv


def step_parts_ns(
    step: iv.Intervals, compute: iv.Intervals, communication: iv.Intervals, copies: iv.Intervals
) -> dict[str, int]:
    """Nanoseconds of compute, exposed_comm, exposed_memcpy and idle in a step; they add up to the step."""
    busy = iv.union(compute, communication)
    inside = {
        "compute": compute,
        "exposed_comm": iv.subtract(communication, compute),
        "exposed_memcpy": iv.subtract(copies, busy),
        "idle": iv.subtract(step, iv.union(busy, copies)),
    }
    return {part: iv.total(iv.intersect(pieces, step)) for part, pieces in inside.items()}
