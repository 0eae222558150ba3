"""How much longer the profiler makes a step, and how long the step is without it, as a capture record tells."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from diagnose.facts import Unknown, another_run, spoken
from diagnose.trace.light_steps import told_shares
from diagnose.trace.record import CaptureRecord, profiler_factor, unprofiled_ns

DISTORTED = 3.0  # profiled over unprofiled step time: from there on a share of a profiled step is not the job's

_LONGER = another_run("capture steps in which operators take longer: the profiler's cost is one for each operator")


@dataclass(frozen=True)
class Overhead:
    """The profiled step against the one without the profiler; None where the capture did not time it.

    `factor` is profiled over unprofiled step time, `step_ns` the median of the steps without the profiler, and
    `told_shares` what of these the host spent on causes of the ledger that its ranges tell, some of them together.
    """

    factor: float | None = None
    step_ns: float | None = None
    told_shares: Mapping[tuple[str, ...], float] = field(default_factory=dict)

    def undistorted_ns(self, profiled_ns: float, distortion: float) -> float:
        """The step without the profiler: as timed, else the profiled one over what distorts it."""
        return self.step_ns or profiled_ns / (self.factor or distortion)


NOT_TIMED = Overhead()


def overhead_of(record: CaptureRecord) -> Overhead:
    """What the record tells of it."""
    times = unprofiled_ns(record)
    return Overhead(profiler_factor(record), float(np.median(times)) if times else None, told_shares(record))


def is_distorted(factor: float | None) -> bool:
    """Whether shares of a step that the profiler makes so many times as long say nothing of the job's own."""
    return factor is not None and factor >= DISTORTED


def distorted_by(distortion: float) -> Unknown:
    """Why a share of such steps is not known."""
    longer = spoken(distortion, "factor")
    because = f"profiled steps take {longer} the time of unprofiled ones, so shares of them are not the job's"
    return Unknown(because, _LONGER)
