"""The slow steps of the window and of the run, in words."""

import msgspec

from diagnose.diagnosis import Diagnosis, SlowStep
from diagnose.facts import duration
from diagnose.report.views.words import causes_named


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


def _view(diagnosis: Diagnosis, step: SlowStep, several: bool) -> SlowStepView:
    on_rank = f" on rank {step.rank}" if several else ""
    grown = f"{duration(step.cause_ns)} more {causes_named(diagnosis)(step.cause)}" if step.cause else ""
    why = grown if step.recorded else "not in the window"
    return SlowStepView(f"{step.step:,}{on_rank}", duration(step.ns), f"{step.factor:.2f}x", why)
