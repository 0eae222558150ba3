"""Steps without a GPU: what the host does follows each other, so that a step with a change is its breakdown, scaled."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Floats
from diagnose.attribution.attribution import Attribution
from diagnose.attribution.causes import CORE_WAIT, EXPOSED
from diagnose.formulas.statistics import draws_of
from diagnose.predict.replay.change import StepChange
from diagnose.predict.replay.host_speeds import RecordedCause, as_the_rest, recorded_by
from diagnose.trace import Trace


@dataclass(frozen=True)
class HostBreakdown:
    """The counted steps of a rank.

    Attributes:
        each_ns: nanoseconds of each step by cause, shape (steps,).
        recorded: what the profiler recorded in a step by cause.
    """

    each_ns: Mapping[str, Floats]
    recorded: Mapping[str, RecordedCause] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Trace, attribution: Attribution) -> "HostBreakdown":
        """The steps that the attribution divides."""
        windows = attribution.windows
        pieces = {cause: attribution.pieces(cause) for cause in attribution.causes}
        each = {
            cause: iv.coverage(instants, windows[:, 0], windows[:, 1]).astype(np.float64)
            for cause, instants in pieces.items()
        }
        recorded = recorded_by(trace, pieces, max(len(windows), 1))
        for waiting in {EXPOSED, CORE_WAIT} & recorded.keys():
            recorded[waiting] = as_the_rest(recorded, waiting)
        return cls(each, recorded)

    @property
    def steps(self) -> int:
        """Number of steps in the breakdown."""
        return max((len(ns) for ns in self.each_ns.values()), default=0)

    @property
    def communicates(self) -> bool:
        """Whether a collective delays the host."""
        return bool(self.each_ns.get(EXPOSED, np.zeros(0)).any())

    def step_ns(self, change: StepChange) -> float:
        """The mean step with the change; `kernels` and what else concerns a GPU changes nothing."""
        return float(_scaled(self._mean_ns, change)[0]) if self.steps else 0.0

    def drawn_ns(self, change: StepChange) -> Floats:
        """The same of other draws of as many steps, shape (draws,)."""
        return _scaled(self._drawn_mean_ns, change)

    @cached_property
    def _mean_ns(self) -> dict[str, Floats]:
        return {cause: ns.mean(keepdims=True) for cause, ns in self.each_ns.items()}

    @cached_property
    def _drawn_mean_ns(self) -> dict[str, Floats]:
        """The mean of each cause in each draw.

        Draws of n steps lie closer together than windows of n steps do, by the root of (n - 1) / n: made up for here,
        as far as any step took as much of a cause.
        """
        draws = draws_of(self.steps)
        wider = (self.steps / max(self.steps - 1, 1)) ** 0.5
        return {
            cause: np.clip(mean + wider * (ns[draws].mean(axis=1) - mean), ns.min(), ns.max())
            for (cause, mean), ns in zip(self._mean_ns.items(), self.each_ns.values(), strict=True)
        }


def _scaled(breakdown: Mapping[str, Floats], change: StepChange) -> Floats:
    """The parts of steps, each scaled, and added up; of the shape of each part."""
    factors = change.factors(tuple(breakdown)) * change.speeds(tuple(breakdown))
    scaled = {cause: ns * factor for (cause, ns), factor in zip(breakdown.items(), factors.tolist(), strict=True)}
    communication = scaled.pop(EXPOSED, np.zeros(1)) * change.communication
    rest = sum(scaled.values(), np.zeros(1))
    return np.maximum(rest, communication) if change.overlap else rest + communication
