"""The rules that fired, with what each change buys, and the order in which to make the changes."""

from collections.abc import Mapping
from functools import partial

from diagnose.diagnosis import Evidence, Finding, Patch, PlanStep
from diagnose.facts import Facts, Unknown
from diagnose.judge.case import Judged
from diagnose.judge.sections import Sections
from diagnose.patch.patches import spelled
from diagnose.patch.worlds import world_of
from diagnose.predict.plan import plan_of
from diagnose.predict.whatif import Predictor
from diagnose.rule import Judgement, Rule

_SEVERITY_ORDER = {"critical": 0, "warning": 1, "info": 2}


def findings_of(judged: Judged, facts: Facts, predictor: Predictor, sections: Sections) -> tuple[Finding, ...]:
    """The rules that fired: what makes the answer unsafe first, then by what the change buys."""
    findings = [
        sections.part(rule.id, partial(_finding, rule, judgement, facts, predictor), None)
        for rule, judgement in judged
        if judgement.fired
    ]
    return tuple(sorted((finding for finding in findings if finding is not None), key=_precedence))


def _precedence(finding: Finding) -> tuple[bool, float, float, int, str]:
    unsafe = finding.class_ == "validity" and finding.severity == "critical"
    gain = finding.predicted_speedup or (1.0, 1.0)
    return not unsafe, -gain[0], -gain[1], _SEVERITY_ORDER[finding.severity], finding.rule


def _finding(rule: Rule, judgement: Judgement, facts: Facts, predictor: Predictor) -> Finding:
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
        predicted_speedup=predictor.predict(rule),
        patch=_patch(rule, facts, predictor),
        assumes=predictor.assumes(rule),
    )


def _patch(rule: Rule, facts: Facts, predictor: Predictor) -> Patch | None:
    """The change as this job can make it, in the spelling of the versions that run it."""
    canonical, versions = rule.patch_for(facts), predictor.measured.record.get("versions")
    patch = canonical and world_of(facts).patch(canonical)
    return patch and spelled(patch, versions if isinstance(versions, Mapping) else None)


def plan_steps(facts: Facts, predictor: Predictor) -> tuple[PlanStep, ...]:
    """The plan, each change with its patch."""
    return tuple(
        PlanStep(
            rule=step.rule.id,
            patch=_patch(step.rule, facts, predictor),
            predicted_speedup=step.speedup,
            cumulative_speedup=step.cumulative,
            effort=step.rule.effort,
            numerics=step.rule.numerics,
            below_noise=step.below_noise,
        )
        for step in plan_of(predictor, predictor.fired, _noise(facts))
    )


def _noise(facts: Facts) -> float:
    noise = facts["step_noise_share"].value
    return 0.0 if isinstance(noise, Unknown) else float(noise)
