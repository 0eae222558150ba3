"""The rules that fired, with the gain of each change, and the order in which to make the changes."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from diagnose.diagnosis import Finding, Patch, PlanStep, Verdict, VerdictClass
from diagnose.diagnosis.terms import bounding, may_slow
from diagnose.facts import Facts, Unknown, spoken
from diagnose.formulas.critical_batch import LearningRateRule, learning_rate_factor, samples_factor
from diagnose.judge.case import Judged
from diagnose.judge.sections import Sections
from diagnose.patch.job_framework import framework_of, in_short
from diagnose.patch.patches import spelled
from diagnose.patch.refusals import ALREADY
from diagnose.patch.script_words import Script
from diagnose.predict.earned import evidence_of
from diagnose.predict.joint import joint_gains
from diagnose.predict.plan import (
    EFFORTS,
    Weight,
    hiding,
    is_within,
    plan_of,
    promised,
    severity_of,
)
from diagnose.predict.whatif import Predictor
from diagnose.rule import Judgement, Rule
from diagnose.rule.assumptions import sentence_of

UNKNOWN_AS = 1.05
STRAGGLER = "straggler"  # the rule that names late ranks
_SEVERITY_ORDER = {"critical": 0, "warning": 1, "info": 2}


def weights_of(judged: Judged, bound_by: VerdictClass, facts: Facts, predictor: Predictor) -> dict[str, Weight]:
    """How much each fired rule matters apart from its predicted gain, by rule."""
    fired = [(rule, judgement) for rule, judgement in judged if judgement.fired]
    excluded_by = {rule.id: frozenset(other.id for other, _ in fired if rule.id in other.excludes) for rule, _ in fired}
    return {
        rule.id: Weight(
            severity=severity_of(judgement.answer, predictor.predict(rule)),
            bounds_step=bounding(bound_by) == rule.class_,
            yields_to=excluded_by[rule.id],
            gentler=_gentler(rule, judgement, fired),
            noise_share=hiding(rule, _noise(facts, rule)),
            suspected=rule.id == STRAGGLER and facts["straggler_suspected"].value is True,
        )
        for rule, judgement in fired
    }


def _gentler(rule: Rule, judgement: Judgement, fired: Iterable[tuple[Rule, Judgement]]) -> frozenset[str]:
    """The fired rules whose changes leave numerics alone and come before the rule's own, which alters them.

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
    """The rules that fired: what makes the answer unsafe first, then what bounds the step, then by the gain of the
    cure.
    """
    findings = [
        sections.part(rule.id, partial(_finding, rule, judgement, facts, predictor), None)
        for rule, judgement in judged
        if judgement.fired
    ]
    return in_order([finding for finding in findings if finding is not None], weights)


def in_order(findings: Sequence[Finding], weights: Mapping[str, Weight]) -> tuple[Finding, ...]:
    """The findings in order: the leading ones, then by predicted gain, then by best case if predictions are equal."""
    return tuple(sorted(findings, key=partial(_precedence, findings, weights)))


def withholding_first(findings: Sequence[Finding], verdict: Verdict) -> tuple[Finding, ...]:
    """The findings with the critical one first that withholds the verdict, whatever its cure gains."""
    worst = verdict.doubts[0].rule if verdict.withheld and verdict.doubts else ""
    return tuple(sorted(findings, key=lambda finding: (finding.rule, finding.severity) != (worst, "critical")))


def _precedence(
    findings: Sequence[Finding], weights: Mapping[str, Weight], finding: Finding
) -> tuple[bool, bool, bool, bool, bool, float, bool, float, int, bool, str]:
    """The sort key of a finding. || A severe finding without a prediction counts as a prediction of UNKNOWN_AS, since
    its gain is not known to be small. A finding that waits for gentler changes comes after the last of them. What may
    slow the step down comes last, and what gains less than the noise before it. What is only suspected leads nothing.
    Of equals, a rule that names a cause comes before the general one that it excludes.
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
    slows, hidden = may_slow(gain), weight.is_noise(gain)
    return (
        not unsafe,
        not leads or hidden,
        follows or slows or weight.suspected,
        slows,
        hidden,
        -least,
        least in awaited,
        -(high or low),
        severity,
        bool(weight.yields_to),
        finding.rule,
    )


def _finding(rule: Rule, judgement: Judgement, facts: Facts, predictor: Predictor) -> Finding:
    cured = predictor.cured(rule)
    saving, patch = predictor.saving(rule), _patch(rule, facts, predictor)
    gain = predictor.predict(rule)
    return Finding(
        rule=rule.id,
        class_=rule.class_,
        title=rule.title,
        severity=severity_of(judgement.answer, gain),  # type: ignore[arg-type]
        says=" ".join(
            filter(None, (rule.sentence(rule.says, facts), _cures(cured, facts), sentence_of(judgement.assumes)))
        ),
        action=(patch and in_short(patch)) or rule.action_for(facts),
        do=" ".join(filter(None, (rule.advised(facts), _without_effect(rule, facts), batch_advice(rule, facts)))),
        evidence=predictor.evidence(rule),
        predicted_speedup=gain,
        likely_speedup=predictor.likely(rule, gain),
        usual_speedup=predictor.usual(rule, gain),
        patch=patch,
        assumes=predictor.assumes(rule) if gain is not None else predictor.withheld(rule),
        booked_share=saving.booked if saving else None,
        hidden_share=saving.hidden if saving else None,
        numerics=rule.numerics,
        rests_on=rule.evidence,
        over="step" if rule.remedy is None else rule.remedy.over,
    )


def _without_effect(rule: Rule, facts: Facts) -> str:
    """A sentence on settings that are no cure here: they are in effect already, or do not reach what runs."""
    if rule.refusing.because == ALREADY:
        names = [framework_of(facts).named(name) for name in rule.refusing.what.split(", ")]
        return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} set already, and the fault is left."
    patch = rule.patch_for(facts)
    return "" if patch is None else framework_of(facts).without_effect(patch)


def in_effect_already(rule: Rule, facts: Facts, judged: Judged) -> str:
    """The reason against a change that is in effect: how much of the fault is left, and the rule for its next cause."""
    others = [other for other, judgement in judged if judgement.fired and other.id != rule.id]
    shares = {name for name in rule.facts if name in facts and facts[name].unit == "share"}
    same = [other for other in others if shares & other.facts] or [o for o in others if o.class_ == rule.class_]
    next_cause = rule.id if rule.refusing.has_other else same[0].id if same else ""
    see = f"see {next_cause}" if next_cause else "it has another cause"
    return f"{ALREADY}, and the fault is left ({_part(rule, facts)}): {see}"


def _cures(cured: tuple[Rule, ...], facts: Facts) -> str:
    """A sentence on the findings that the same change cures, each with its share; "" if there is one finding only."""
    patch = cured[0].patch_for(facts)
    if len(cured) < 2 or patch is None:
        return ""
    change = " and ".join(map(framework_of(facts).named, patch.set))
    parts = ", ".join(_part(rule, facts) for rule in cured)
    return f"The same change ({change}) cures all of these, and the gain is that of all together: {parts}."


def _part(rule: Rule, facts: Facts) -> str:
    """The rule with the first share that it rests on."""
    shares = (item for item in evidence_of((rule,), facts) if item.unit == "share")
    share = next(shares, None)
    return rule.id if share is None else f"{rule.id} {spoken(share.value, 'share')} of {share.of}"


def _patch(rule: Rule, facts: Facts, predictor: Predictor) -> Patch | None:
    """The change as this job can make it, in the spelling of the versions that run it."""
    canonical, recorded = rule.patch_for(facts), predictor.measured.record.get("versions")
    versions = recorded if isinstance(recorded, Mapping) else None
    patch = canonical and framework_of(facts).patch(canonical, versions)
    if patch is None:
        return None
    script = Script.of(predictor.measured.record)
    typed = script.lines(canonical, patch, versions) if script is not None and canonical is not None else ()
    return replace(spelled(patch, versions), typed_because=rule.refusing.by_run, typed=typed)


def plan_steps(facts: Facts, predictor: Predictor, weights: Mapping[str, Weight]) -> tuple[PlanStep, ...]:
    """The plan, each change with its patch, and what it buys with those before it."""
    steps = [
        PlanStep(
            rule=step.rule.id,
            patch=_patch(step.rule, facts, predictor),
            predicted_speedup=step.speedup,
            likely_speedup=predictor.likely(step.rule, step.speedup),
            usual_speedup=predictor.usual(step.rule, step.speedup),
            cumulative_speedup=step.cumulative,
            effort=step.rule.effort,
            numerics=step.rule.numerics,
            below_noise=step.below_noise,
            unmeasurable=not step.below_noise and is_within(step.speedup, _noise(facts, step.rule)),
        )
        for step in plan_of(predictor, predictor.fired, weights)
    ]
    joint = joint_gains(steps)
    return tuple(replace(step, together=gain) for step, gain in zip(steps, joint, strict=True))


def _noise(facts: Facts, rule: Rule) -> float:
    """The spread of the mean step; of what it does besides waiting for data, if that wait is what the rule is about."""
    noise = facts["noise_beside_data_wait_share" if rule.class_ == "data" else "mean_step_noise_share"].value
    return 0.0 if isinstance(noise, Unknown) else float(noise)


# Sentences on a change of the batch: the learning rate that goes with it, and its cost in samples.

_OF_BATCH = {"per_device_train_batch_size": "micro_batch_size", "gradient_accumulation_steps": "accumulation_steps"}
_SAME = 0.01  # by which whole micro-batches may miss the batch as it was
_RULES: Mapping[str, LearningRateRule] = {"linear": "linear", "square root": "square root"}


def batch_advice(rule: Rule, facts: Facts) -> str:
    """The sentences for a rule whose patch changes the batch; "" for every other one."""
    if rule.patch is None or not _OF_BATCH.keys() & rule.patch.values.keys():
        return ""
    growth = _growth(rule.patch_for(facts), facts)
    if growth is None:
        return f"If the global batch grows, {_learning_rate(None, facts)}. {_critical(None, facts)}"
    if abs(growth - 1) <= _SAME:
        return "The global batch stays as it is, and so does the learning rate."
    grows = f"The global batch becomes {growth:.2g} times as large: {_learning_rate(growth, facts)}."
    return f"{grows} {_critical(growth, facts)}" if growth > 1 else grows


def _growth(patch: Patch | None, facts: Facts) -> float | None:
    """The global batch with the change over the present one; None if a setting that it multiplies is unknown."""
    growth = 1.0
    for setting, fact in _OF_BATCH.items():
        now = _number(facts, fact)
        if patch is None or (setting in patch.set and not now):
            return None
        growth *= float(patch.set[setting]) / now if setting in patch.set and now else 1.0
    return growth


def _learning_rate(growth: float | None, facts: Facts) -> str:
    known = facts["learning_rate_rule"].value
    rule = _RULES.get(str(known))
    if isinstance(known, Unknown) or rule is None:
        return "tune the learning rate again, because how it follows the batch is unknown for this optimizer"
    optimizer = facts["optimizer_name"].value
    how = f"{rule}, as {optimizer} asks for"
    if growth is None:
        with_it = "with its square root" if rule == "square root" else "in proportion"
        return f"scale the learning rate {with_it}, as {optimizer} asks for"
    return f"multiply the learning rate by {learning_rate_factor(growth, rule):.2g} ({how})"


def _critical(growth: float | None, facts: Facts) -> str:
    """A sentence on the samples that the same loss then takes, or on how to find out."""
    over = _number(facts, "critical_batch_factor")
    if over is None:
        return (
            "Beyond the critical batch more samples save few steps. Where it lies for this job is unknown: measure the "
            "gradient noise scale (McCandlish et al. 2018) and pass --critical-batch."
        )
    if growth is None:
        return f"It is {over:.2g} times the critical batch now, beyond which more samples save few steps."
    more = samples_factor(over, growth) - 1
    times = f"It is then {over * growth:.2g} times the critical batch"
    return f"{times}: the same loss takes {100 * more:.0f} % more samples."


def _number(facts: Facts, name: str) -> float | None:
    value = facts[name].value
    return None if isinstance(value, Unknown | str) else float(value)
