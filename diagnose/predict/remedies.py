"""Remedies of rules as changes to one rank's step: groups become kernels of its trace, factors numbers."""

from collections.abc import Mapping
from functools import reduce

import numpy as np

from diagnose.arrays import Coded, Mask
from diagnose.attribution.causes import IDLE_FOR_INPUT, OPERATORS
from diagnose.attribution.idle import Host
from diagnose.facts import Facts, Unknown
from diagnose.metrics import Measured
from diagnose.metrics.kernel_groups.phases import optimizer_apart
from diagnose.metrics.kernel_groups.registry import GROUPS, Group
from diagnose.predict.changed import NOTHING, ChangedStep, combined
from diagnose.predict.fewer_collectives import fewer_collectives
from diagnose.predict.replay import StepChange
from diagnose.rule.remedy import Case, Factors, Remedy
from diagnose.rule.rule_file import Waits
from diagnose.trace.vocabulary import RUNTIME, SYNCHRONISATION

NOTHING_LEFT = 1e-9  # of a step: far below what a trace resolves, so that no gain is promised from it


class Remedies:
    """The changes that remedies make to the step of one rank.

    Args:
        measured: the rank.
        facts: facts of the job, from which the factors are computed.
    """

    def __init__(self, measured: Measured, facts: Facts) -> None:
        self.measured, self.facts = measured, facts
        self._groups: dict[str, Group] = {}
        self._factors: dict[tuple[float, tuple[tuple[str, float], ...]], Coded | Unknown | None] = {}
        self._no_wait: dict[tuple[Waits, Case], Mask | None] = {}
        self._without: dict[tuple[str, float, Case], ChangedStep] = {}

    def changed(self, remedy: Remedy | None, case: Case) -> ChangedStep | None:
        """The change in the best or the worst case; None if a fact or a group of kernels is unknown."""
        factors = remedy.factors(self.facts, case) if remedy else None
        if remedy is None or factors is None:
            return None
        gain = factors.tokens / max(1 - factors.removed, NOTHING_LEFT)
        if not remedy.replayed:
            return ChangedStep(NOTHING.change, gain)
        if remedy.kernels and not (self.measured.timeline.has_gpu or {*OPERATORS} & {*remedy.host}):
            return None  # without a GPU operators are what kernels are with one
        kernels = self._kernels(factors)
        merged = self._merged(remedy, case)
        if isinstance(kernels, Unknown) or isinstance(merged, Unknown):
            return None
        change = ChangedStep(
            StepChange(
                kernels=kernels,
                merge=merged,
                host=self._host(factors),
                no_wait=None if remedy.waits is None else self._waits(remedy.waits, case),
                launches=factors.launches,
                communication=factors.communication,
                overlap=remedy.hides,
            ),
            gain,
        )
        fewer = (self._fewer(name, left, case) for name, left in factors.collectives.items())
        return reduce(combined, fewer, change)

    def _fewer(self, name: str, left: float, case: Case) -> ChangedStep:
        """The same change for the same question."""
        asked = name, left, case
        if asked not in self._without:
            self._without[asked] = ChangedStep(fewer_collectives(self.measured, name, left, case))
        return self._without[asked]

    def _host(self, factors: Factors) -> Mapping[str, float]:
        """Factors on host time: a larger batch takes longer to load, and without a GPU to compute."""
        if factors.tokens == 1:
            return factors.host
        causes = IDLE_FOR_INPUT if self.measured.timeline.has_gpu else (*IDLE_FOR_INPUT, *OPERATORS)
        return {**factors.host, **{cause: factors.host.get(cause, 1.0) * factors.tokens for cause in causes}}

    def _kernels(self, factors: Factors) -> Coded | Unknown | None:
        """Factor of each activity; the same array for the same factors, which cases and plans ask for again."""
        asked = factors.tokens, tuple(factors.kernels.items())
        if asked not in self._factors:
            self._factors[asked] = self._factor_of_each(factors)
        return self._factors[asked]

    def _factor_of_each(self, factors: Factors) -> Coded | Unknown | None:
        """A larger batch lengthens all kernels but the optimizer's in proportion."""
        if not len(self.measured.timeline.gpu) or not (factors.kernels or factors.tokens != 1):
            return None
        factor_of = Coded.ones(len(self.measured.timeline.gpu))
        if factors.tokens != 1:
            longer = optimizer_apart(self.measured) | self.measured.timeline.gpu.is_copy
            factor_of = factor_of.times(factors.tokens, longer)
        for name, factor in factors.kernels.items():
            group = self._group(name)
            if isinstance(group, Unknown):
                return group
            factor_of = factor_of.times(factor, group)
        return factor_of

    def _group(self, name: str) -> Group:
        if name not in self._groups:
            self._groups[name] = GROUPS[name](self.measured)
        return self._groups[name]

    def _merged(self, remedy: Remedy, case: Case) -> Mask | Unknown | None:
        """Mask of activities that fuse; None in the worst case: one Python operator can cost the host as much as the
        chain.
        """
        if case == "worst" or not remedy.fuses or not len(self.measured.timeline.gpu):
            return None
        merged = np.zeros(len(self.measured.timeline.gpu), bool)
        for name in remedy.fuses:
            group = self._group(name)
            if isinstance(group, Unknown):
                return group
            merged |= group
        return merged

    def _waits(self, which: Waits, case: Case) -> Mask | None:
        """The same mask for the same question."""
        if (which, case) not in self._no_wait:
            self._no_wait[which, case] = self._no_longer_waiting(which, case)
        return self._no_wait[which, case]

    def _no_longer_waiting(self, which: Waits, case: Case) -> Mask | None:
        """Mask over the trace of the calls that no longer wait.

        None in the worst case of a job with collectives: what a rank gains there, it waits for the other ranks.
        """
        line = self.measured.timeline
        if case == "worst" and line.gpu.is_communication.any():
            return None
        to_device, to_host = Host(line).long_copies()
        return to_device if which == "copies" else to_host | line.matching(SYNCHRONISATION, *RUNTIME)
