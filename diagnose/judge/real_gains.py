"""The low ends that the answer shows: changes are chosen by worst cases, and shown by how real ones turned out."""

from typing import TypeVar

from msgspec.structs import replace

from diagnose.diagnosis import Diagnosis, Finding, PlanStep, Recommendation
from diagnose.diagnosis.terms import Speedup
from diagnose.predict.joint import joint_gains
from diagnose.predict.real_gains import DeviceKind, narrowed, worst_told

Change = TypeVar("Change", Finding, PlanStep, Recommendation)


def with_promises(answer: Diagnosis) -> Diagnosis:
    """The answer with the range of real changes in place of worst and best case; `assumes` names the worst."""
    kind: DeviceKind = "cpu" if answer.cpu_only else "gpu"
    steps = tuple(_step(each, kind) for each in answer.plan)
    return replace(
        answer,
        findings=tuple(_finding(each, kind) for each in answer.findings),
        plan=tuple(replace(step, together=gain) for step, gain in zip(steps, joint_gains(steps), strict=True)),
        next=_change(answer.next, kind),
    )


def _finding(finding: Finding, kind: DeviceKind) -> Finding:
    cases, found = finding.predicted_speedup, _change(finding, kind)
    if cases is None or found.predicted_speedup == cases:
        return finding
    return replace(found, assumes=f"{finding.assumes}; {worst_told(cases)}")


def _step(step: PlanStep, kind: DeviceKind) -> PlanStep:
    return replace(_change(step, kind), cumulative_speedup=narrowed(step.cumulative_speedup, kind))


def _change(change: Change, kind: DeviceKind) -> Change:
    """The change by the gains of real ones; a bound, which has no likely value, stays one."""
    gain: Speedup | None = change.predicted_speedup
    return change if change.likely_speedup is None else replace(change, predicted_speedup=narrowed(gain, kind))
