"""The rules that fired, with what each change buys, and the order in which to make the changes."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from diagnose.diagnosis import Evidence, Finding, Patch, PlanStep, VerdictClass
from diagnose.facts import Facts, Unknown, spoken
from diagnose.judge.batch_advice import batch_advice
from diagnose.judge.case import Judged
from diagnose.judge.sections import Sections
from diagnose.patch.patches import spelled
from diagnose.patch.worlds import in_short, world_of
from diagnose.predict.plan import EFFORTS, Weight, plan_of, promised
from diagnose.predict.whatif import Predictor
from diagnose.rule import Judgement, Rule

UNKNOWN_AS = 1.05
_SEVERITY_ORDER = {"critical": 0, "warning": 1, "info": 2}


def weights_of(judged: Judged, bound_by: VerdictClass) -> dict[str, Weight]:
    """How much each fault matters beside what its cure buys, by rule."""
    fired = [(rule, judgement) for rule, judgement in judged if judgement.fired]
    excluded_by = {rule.id: frozenset(other.id for other, _ in fired if rule.id in other.excludes) for rule, _ in fired}
    return {
        rule.id: Weight(
            severity=judgement.answer,
            bounds_step=bound_by == f"{rule.class_}-bound",
            yields_to=excluded_by[rule.id],
            gentler=_gentler(rule, judgement, fired),
        )
        for rule, judgement in fired
    }


def _gentler(rule: Rule, judgement: Judgement, fired: Iterable[tuple[Rule, Judgement]]) -> frozenset[str]:
    """The rules whose changes leave numerics alone and come before the rule's own, which alters them.

    A change for information comes after the cure of every fault, and after what is for information and takes no more
    effort. A larger batch, however much memory is free, comes after the cures of faults that take no more effort: it
    changes what is trained, and hides a fault instead of curing it.
    """
    if not rule.numerics:
        return frozenset()
    most = EFFORTS.index(rule.effort)
    gentle = [
        (other, EFFORTS.index(other.effort) <= most, found.answer) for other, found in fired if not other.numerics
    ]
    if judgement.answer == "info":
        return frozenset(other.id for other, easy, answer in gentle if easy or answer != "info")
    if rule.remedy is None or rule.remedy.batch is None:
        return frozenset()
    return frozenset(other.id for other, easy, answer in gentle if easy and answer != "info")


def findings_of(
    judged: Judged, facts: Facts, predictor: Predictor, sections: Sections, weights: Mapping[str, Weight]
) -> tuple[Finding, ...]:
    """The rules that fired: what makes the answer unsafe first, then what bounds the step, then by what a cure buys."""
    findings = [
        sections.part(rule.id, partial(_finding, rule, judgement, facts, predictor), None)
        for rule, judgement in judged
        if judgement.fired
    ]
    return in_order([finding for finding in findings if finding is not None], weights)


def in_order(findings: Sequence[Finding], weights: Mapping[str, Weight]) -> tuple[Finding, ...]:
    """What leads comes first, then what promises most, and the best case between those that promise the same."""
    return tuple(sorted(findings, key=partial(_precedence, findings, weights)))


def _precedence(
    findings: Sequence[Finding], weights: Mapping[str, Weight], finding: Finding
) -> tuple[bool, bool, bool, float, bool, float, int, str]:
    """A severe finding without a prediction stands at a promise of UNKNOWN_AS: its gain is not known to be small.

    What awaits gentler changes stands behind the last of them.
    """
    doubt, severity = finding.class_ == "validity", _SEVERITY_ORDER[finding.severity]
    weight, gain = weights[finding.rule], finding.predicted_speedup
    ranges = {each.rule: each.predicted_speedup for each in findings}
    follows = weight.follows(gain, ((weights[name], each) for name, each in ranges.items()))
    unknown = 1.0 if doubt or finding.severity == "info" else UNKNOWN_AS
    low, high = (weight.promise(gain), gain[1]) if gain else (unknown, unknown)
    awaited = [promised(each) for each in weight.awaited(weights, ranges)]
    unsafe = doubt and finding.severity == "critical"
    leads = weight.leads(gain) and not weight.yields(gain, ranges)
    least = min((low, *awaited))
    return not unsafe, not leads, follows, -least, least in awaited, -(high or low), severity, finding.rule


def _finding(rule: Rule, judgement: Judgement, facts: Facts, predictor: Predictor) -> Finding:
    cured = predictor.cured(rule)
    evidence = _evidence(dict.fromkeys((*judgement.evidence, *_rests_on(cured[1:], facts))), facts)
    saving, patch = predictor.saving(rule), _patch(rule, facts, predictor)
    gain = predictor.predict(rule)
    return Finding(
        rule=rule.id,
        class_=rule.class_,
        severity=judgement.answer,  # type: ignore[arg-type]
        says=" ".join(filter(None, (rule.sentence(rule.says, facts), _cures(cured, facts)))),
        action=(patch and in_short(patch)) or rule.action_for(facts),
        do=" ".join(filter(None, (rule.advised(facts), batch_advice(rule, facts)))),
        evidence=evidence,
        predicted_speedup=gain,
        patch=patch,
        assumes=predictor.assumes(rule) if gain is not None else predictor.withheld(rule),
        booked_share=saving.booked if saving else None,
        hidden_share=saving.hidden if saving else None,
        numerics=rule.numerics,
    )


def _evidence(names: Iterable[str], facts: Facts) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(fact=name, value=value, unit=facts[name].unit, of=facts[name].of)
        for name in names
        if not isinstance(value := facts[name].value, Unknown)
    )


def _rests_on(cured: Iterable[Rule], facts: Facts) -> tuple[str, ...]:
    """The evidence of the rules, without what they only find absent: a share of nothing is no evidence."""
    return tuple(name for rule in cured for name in rule.judge(facts).evidence if facts[name].value != 0)


def _cures(cured: tuple[Rule, ...], facts: Facts) -> str:
    """What all one change changes, each with its share; "" where it changes what the finding says alone."""
    patch = cured[0].patch_for(facts)
    if len(cured) < 2 or patch is None:
        return ""
    change = " and ".join(map(world_of(facts).named, patch.set))
    parts = ", ".join(_part(rule, facts) for rule in cured)
    return f"The same change ({change}) cures all of these, and the gain is that of all together: {parts}."


def _part(rule: Rule, facts: Facts) -> str:
    """The rule with the first share that it rests on."""
    shares = (item for item in _evidence(rule.judge(facts).evidence, facts) if item.unit == "share")
    share = next(shares, None)
    return rule.id if share is None else f"{rule.id} {spoken(share.value, 'share')} of {share.of}"


def _patch(rule: Rule, facts: Facts, predictor: Predictor) -> Patch | None:
    """The change as this job can make it, in the spelling of the versions that run it."""
    canonical, versions = rule.patch_for(facts), predictor.measured.record.get("versions")
    patch = canonical and world_of(facts).patch(canonical)
    if patch is None:
        return None
    return replace(
        spelled(patch, versions if isinstance(versions, Mapping) else None), typed_because=rule.refusing.by_run
    )


def plan_steps(facts: Facts, predictor: Predictor, weights: Mapping[str, Weight]) -> tuple[PlanStep, ...]:
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
        for step in plan_of(predictor, predictor.fired, _noise(facts), weights)
    )


def _noise(facts: Facts) -> float:
    noise = facts["step_noise_share"].value
    return 0.0 if isinstance(noise, Unknown) else float(noise)
