"""The slow steps of the window and of the run, in words."""

from collections.abc import Sequence
from statistics import median

import msgspec

from diagnose.diagnosis import Diagnosis, SlowStep
from diagnose.facts import duration
from diagnose.report.views.words import causes_named

_NAMED = 6


class SlowStepView(msgspec.Struct, frozen=True):
    """One slow step as shown: its number, its time, the multiple of the median, and the cause, "" if unknown."""

    step: str
    time: str
    factor: str
    why: str

    @property
    def line(self) -> str:
        """The step in one sentence."""
        return f"step {self.step}: {self.time}, {self.factor} the median" + (f"; {self.why}" if self.why else "")


def slow_steps_view(diagnosis: Diagnosis) -> list[SlowStepView] | None:
    """The slow steps in order of number; None if there are none."""
    several = len(diagnosis.ranks) > 1
    return [_view(diagnosis, step, several) for step in diagnosis.slow_steps] or None


def explained_slow_steps(diagnosis: Diagnosis) -> list[str]:
    """A sentence for each explanation that slow steps have in common: their numbers, their times, and what grew."""
    groups: dict[tuple[str, str], list[SlowStep]] = {}
    for step in diagnosis.slow_steps:
        if step.cause:
            groups.setdefault((step.cause, step.what), []).append(step)
    ordered = sorted(groups.values(), key=lambda group: -sum(step.cause_ns for step in group))
    return [_together(diagnosis, group) for group in ordered]


def _together(diagnosis: Diagnosis, group: Sequence[SlowStep]) -> str:
    numbers = [f"{step.step:,}" for step in group]
    listed = ", ".join(numbers[:_NAMED]) + (f", ... ({len(numbers)} in all)" if len(numbers) > _NAMED else "")
    grown = duration(float(median(step.cause_ns for step in group)))
    factor = median(step.factor for step in group)
    why = f"{grown} more {causes_named(diagnosis)(group[0].cause)}" + (f": {group[0].what}" if group[0].what else "")
    return f"step{'s' * (len(group) > 1)} {listed}: {factor:.3g}x the median; {why}"


def _view(diagnosis: Diagnosis, step: SlowStep, several: bool) -> SlowStepView:
    on_rank = f" on rank {step.rank}" if several else ""
    grown = f"{duration(step.cause_ns)} more {causes_named(diagnosis)(step.cause)}" if step.cause else ""
    what = f"{grown}: {step.what}" if step.what and grown else grown
    why = what or ("" if step.recorded else "not in the window, and in none of its ranges")
    return SlowStepView(f"{step.step:,}{on_rank}", duration(step.ns), f"{step.factor:.2f}x", why)
