"""The rules that fired, with what each change buys, and the order in which to make the changes."""

from collections.abc import Mapping
from functools import partial

from diagnose.diagnosis import Evidence, Finding, Patch, PlanStep
from diagnose.facts import Facts, Unknown
from diagnose.judge.case import Judged
from diagnose.judge.sections import Sections
from diagnose.patch.patches import spelled, without_trainer
from diagnose.predict.plan import plan_of
from diagnose.predict.whatif import Outlook
from diagnose.rule import Judgement, Rule

_SEVERITY_ORDER = {"critical": 0, "warning": 1, "info": 2}


def findings_of(judged: Judged, facts: Facts, outlook: Outlook, sections: Sections) -> tuple[Finding, ...]:
    """The rules that fired: what makes the answer unsafe first, then by what the change buys."""
    found = [
        sections.part(rule.id, partial(_finding, rule, judgement, facts, outlook), None)
        for rule, judgement in judged
        if judgement.fired
    ]
    return tuple(sorted((finding for finding in found if finding is not None), key=_precedence))


def _precedence(finding: Finding) -> tuple[bool, float, float, int, str]:
    unsafe = finding.class_ == "validity" and finding.severity == "critical"
    gain = finding.predicted_speedup or (1.0, 1.0)
    return not unsafe, -gain[0], -gain[1], _SEVERITY_ORDER[finding.severity], finding.rule


def _finding(rule: Rule, judgement: Judgement, facts: Facts, outlook: Outlook) -> Finding:
    evidence = tuple(
        Evidence(fact=name, value=value, unit=facts[name].unit, of=facts[name].of)
        for name in judgement.evidence
        if not isinstance(value := facts[name].value, Unknown)
    )
    return Finding(
        rule=rule.id,
        class_=rule.class_,
        severity=judgement.answer,  # type: ignore[arg-type]
        says=rule.sentence(rule.says, facts),
        do=rule.advised(facts),
        evidence=evidence,
        predicted_speedup=outlook.predict(rule),
        patch=_patch(rule, facts, outlook),
        assumes=outlook.assumes(rule),
    )


def _patch(rule: Rule, facts: Facts, outlook: Outlook) -> Patch | None:
    """The change as this job can make it, in the spelling of the versions that run it."""
    record = outlook.measured.record
    patch, versions = rule.patch_for(facts), record.get("versions")
    if patch is not None and "training_arguments" in record.values and record.get("training_arguments") is None:
        patch = without_trainer(patch)
    return patch and spelled(patch, versions if isinstance(versions, Mapping) else None)


def plan_steps(facts: Facts, outlook: Outlook) -> tuple[PlanStep, ...]:
    """The plan, each change with its patch."""
    return tuple(
        PlanStep(
            rule=step.rule.id,
            patch=_patch(step.rule, facts, outlook),
            predicted_speedup=step.speedup,
            cumulative_speedup=step.cumulative,
            effort=step.rule.effort,
            numerics=step.rule.numerics,
            below_noise=step.below_noise,
        )
        for step in plan_of(outlook, outlook.fired, _noise(facts))
    )


def _noise(facts: Facts) -> float:
    noise = facts["step_noise_share"].value
    return 0.0 if isinstance(noise, Unknown) else float(noise)
