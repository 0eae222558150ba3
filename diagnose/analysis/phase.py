"""The ranks that work in the slow steps that come again, and those that wait there for them."""

from collections.abc import Sequence
from dataclasses import replace

from diagnose.metrics import Measured
from diagnose.series.phase import SlowPhase


def waiting_told(measured: Sequence[Measured]) -> list[Measured]:
    """The ranks, those marked that wait in the slow steps while others work; if all wait it is for something else."""
    waits = [isinstance(m.slow_phase, SlowPhase) and m.slow_phase.waits for m in measured]
    if all(waits):
        return list(measured)
    return [replace(m, waits_in_phase=True) if wait else m for m, wait in zip(measured, waits, strict=True)]
