"""Jobs that exist as a formula: what a run of them takes with these settings, and what its diagnosis plans."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import diagnoses
from msgspec.structs import replace

from diagnose.commands.tune.answer import Rung, Settings, Tuning
from diagnose.commands.tune.running import EndedRun
from diagnose.commands.tune.settings import patches_of
from diagnose.commands.tune.state import TuneFolder
from diagnose.commands.tune.trials import Trials, TuneLimits
from diagnose.diagnosis import Applied, Diagnosis, FactReport, Finding, Patch, PlanStep, Speedup

MS = 1_000_000
Planned = tuple[str, Patch, Speedup]


def steps_of(step_ms: float, spread: float = 0.001) -> tuple[int, ...]:
    """Eight steps that lie 0.1 % apart, or as far as `spread` says."""
    return tuple(round(step_ms * MS * (1 + spread * (i % 2))) for i in range(8))


def diagnosed(
    step_ms: float,
    plan: Sequence[PlanStep] = (),
    settings: Settings | None = None,
    facts: Mapping[str, float | bool | str] | None = None,
    applied: Applied | None = None,
    spread: float = 0.001,
) -> Diagnosis:
    """A run whose steps take so long and lie so far apart, and in which `settings` are in use."""
    base = diagnoses.diagnosis()
    each_ns = steps_of(step_ms, spread)
    in_use = Applied(patches=patches_of(settings)) if settings else None
    return replace(
        base,
        steps=replace(base.steps, each_ns=each_ns, unprofiled_ns=each_ns, count=8),
        plan=tuple(plan),
        findings=tuple(_finding(step) for step in plan),
        facts=tuple(FactReport(name=name, value=value, unit="count") for name, value in (facts or {}).items()),
        applied=applied or in_use,
    )


def planned(rule: str, gain: Speedup, target: str = "training_arguments", **settings: Any) -> PlanStep:
    """A planned change that a run can make."""
    return PlanStep(rule=rule, patch=Patch(target=target, set=settings), predicted_speedup=gain)


def _finding(step: PlanStep) -> Finding:
    return Finding(
        rule=step.rule, class_="compute", severity="warning", says="", do="", evidence=(),
        predicted_speedup=step.predicted_speedup, patch=step.patch,
    )  # fmt: skip


class MadeUpRuns:
    """Runs of a job that is a function of what is set; `asked` are the settings of all runs so far."""

    def __init__(self, job: Callable[[Settings], Diagnosis | EndedRun]) -> None:
        self._job = job
        self.asked: list[Settings] = []
        self.expected: list[Mapping[str, Any] | None] = []

    def __call__(
        self, number: int, settings: Settings, expected: Mapping[str, Any] | None, most_s: float | None
    ) -> EndedRun:
        self.asked.append(settings)
        self.expected.append(expected)
        made = self._job(settings)
        return made if isinstance(made, EndedRun) else EndedRun("ok", diagnosis=made, seconds=10.0)


def climbed(folder: Path, job: MadeUpRuns, **limits: Any) -> Tuning:
    """The ladder of the job."""
    told: list[Rung] = []
    known = {"records_predictions": False, "repeats": False} | limits
    tuning = Trials(TuneFolder(folder), ["train.py"], job, TuneLimits(**known), told.append).climb()
    assert tuple(told) == tuning.rungs[len(tuning.rungs) - len(told) :]
    return tuning
