"""The time of the step as it is without the profiler."""

import statistics

from diagnose.metrics.measured import Measured
from diagnose.trace.record import unprofiled_ns


def usual_step_ns(m: Measured) -> float:
    """Time of a step without the profiler, or of one with it if no other is known."""
    return statistics.median(unprofiled_ns(m.record) or [m.step_s * 1e9])
