"""The profiler's slowdown of a step, and the step time without it, from a capture record."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from diagnose.facts import Unknown, another_run, spoken
from diagnose.trace.light_steps import shares_in_ranges
from diagnose.trace.record import CaptureRecord, profiler_factor, unprofiled_ns

DISTORTED = 3.0  # profiled over unprofiled step time: from there on a share of a profiled step is not the job's

_LONGER = another_run("capture steps in which operators take longer: the profiler's cost is one for each operator")


@dataclass(frozen=True)
class Overhead:
    """The profiled step compared with the one without the profiler; None if the capture did not time it.

    `factor` is profiled over unprofiled step time, `step_ns` the median of the steps without the profiler, and
    `shares_in_ranges` the shares of these that the host spent on causes of the breakdown, by its ranges; some causes
    share a range.
    """

    factor: float | None = None
    step_ns: float | None = None
    shares_in_ranges: Mapping[tuple[str, ...], float] = field(default_factory=dict)

    def undistorted_ns(self, profiled_ns: float, distortion: float) -> float:
        """The step without the profiler: as timed, else the profiled one over what distorts it."""
        return self.step_ns or profiled_ns / (self.factor or distortion)


NOT_TIMED = Overhead()


def overhead_of(record: CaptureRecord) -> Overhead:
    """The overhead by the record."""
    times = unprofiled_ns(record)
    return Overhead(profiler_factor(record), float(np.median(times)) if times else None, shares_in_ranges(record))


def is_distorted(factor: float | None) -> bool:
    """Whether the profiler makes a step so many times as long that shares of it are not the job's own."""
    return factor is not None and factor >= DISTORTED


def distorted_by(distortion: float) -> Unknown:
    """Unknown, with the reason why shares of such steps are not known."""
    longer = spoken(distortion, "factor")
    because = f"profiled steps take {longer} the time of unprofiled ones, so shares of them are not the job's"
    return Unknown(because, _LONGER)
