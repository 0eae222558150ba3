"""Ledgers, facts and rules to a Diagnosis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diagnose.attribution import Attribution
from diagnose.diagnosis import (
    Diagnosis,
    Evidence,
    Finding,
    LedgerEntry,
    Loss,
    NotAdvised,
    NotJudged,
    Patch,
    PlanStep,
    RankReport,
    ReplayReport,
    Steps,
    Straggler,
    TraceSummary,
    Verdict,
)
from diagnose.facts import Facts, Unknown
from diagnose.metrics import Measured
from diagnose.patches import spelled, without_trainer
from diagnose.plan import plan_of
from diagnose.ranks import Job, missing_ranks
from diagnose.rule import Judgement, Rule
from diagnose.timeline import Timeline
from diagnose.utilisation import matrix_time_of, mfu_of, operators_of_job, roofline_of_job
from diagnose.verdict import Grounds, verdict_of
from diagnose.waterfall import waterfall_of
from diagnose.whatif import Outlook

DEVICE_STEP, HOST_STEP = "the device step", "the host step"
_SEVERITY_ORDER = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class Case:
    """Everything a diagnosis rests on."""

    measured: Sequence[Measured]
    rank_facts: Sequence[Facts]
    facts: Facts
    job: Job
    rules: Sequence[Rule]
    left_out: tuple[int, ...] = ()


def diagnose(case: Case) -> Diagnosis:
    """The diagnosis of one job."""
    timelines = [m.timeline for m in case.measured]
    ledger = ledger_of(timelines, [m.attribution for m in case.measured])
    judged = [(rule, rule.judge(case.facts)) for rule in case.rules]
    verdict = verdict_of(ledger, _grounds(timelines, case.facts))
    work = matrix_time_of(case.measured)
    outlook = _outlook(case, [rule for rule, judgement in judged if _fired(judgement)])
    findings = _findings(judged, case.facts, outlook)
    return Diagnosis(
        verdict=verdict,
        steps=_steps(timelines),
        ledger=ledger,
        waterfall=waterfall_of(ledger, work),
        mfu=mfu_of(case.measured, work),
        roofline=roofline_of_job(case.measured),
        operators=operators_of_job(case.measured),
        findings=findings,
        plan=_plan(case.facts, outlook),
        replay=_replay(outlook),
        not_advised=_not_advised(judged, case.facts, findings),
        not_judged=_not_judged(judged, case),
        ranks=tuple(_rank(m, facts, len(timelines)) for m, facts in zip(case.measured, case.rank_facts, strict=True)),
        stragglers=tuple(
            Straggler(rank=b.rank, cause=b.cause, waiting_ns_caused=b.caused_ns) for b in case.job.stragglers
        ),
        trace=_summary(timelines, case.left_out),
    )


def ledger_of(timelines: Sequence[Timeline], attributions: Sequence[Attribution]) -> tuple[LedgerEntry, ...]:
    """Causes of all ranks added up, largest first; an absent cause has no entry."""
    if any(t.capture_failed for t in timelines):
        total = sum(_host_ns(t) for t in timelines)
        return (LedgerEntry(cause="gpu-activity-missing", class_="unexplained", ns=total, share=1.0),)
    sums: dict[tuple[str, str], int] = {}
    for attribution in attributions:
        for cause, ns in attribution.ns().items():
            key = (cause, attribution.class_of(cause))
            sums[key] = sums.get(key, 0) + ns
    total = max(sum(sums.values()), 1)
    ordered = sorted(((ns, *key) for key, ns in sums.items() if ns), key=lambda e: (-e[0], e[1]))
    return tuple(
        LedgerEntry(cause=cause, class_=class_, ns=ns, share=ns / total)  # type: ignore[arg-type]
        for ns, cause, class_ in ordered
    )


def _host_ns(timeline: Timeline) -> int:
    return int((timeline.steps.host[:, 1] - timeline.steps.host[:, 0]).sum())


def _device_ns(timeline: Timeline) -> int:
    return int((timeline.steps.device[:, 1] - timeline.steps.device[:, 0]).sum())


def _steps(timelines: Sequence[Timeline]) -> Steps:
    return Steps(
        source=timelines[0].steps.source,
        count=sum(t.steps.count for t in timelines),
        time_ns=sum(_host_ns(t) for t in timelines),
        device_time_ns=sum(_device_ns(t) for t in timelines) if all(t.has_gpu for t in timelines) else None,
    )


def _grounds(timelines: Sequence[Timeline], facts: Facts) -> Grounds:
    size = facts["world_size"].value
    has_gpu = all(t.has_gpu for t in timelines)
    return Grounds(
        of=DEVICE_STEP if has_gpu else HOST_STEP,
        steps=min(t.steps.count for t in timelines),
        has_gpu=has_gpu,
        capture_failed=any(t.capture_failed for t in timelines),
        lost_share=_or_zero(facts, "gpu_events_lost_share"),
        sized_share=_or_zero(facts, "roofline_judged_share"),
        alone_of_many=len(timelines) == 1 and not isinstance(size, Unknown) and float(size) > 1,
    )


def _or_zero(facts: Facts, name: str) -> float:
    value = facts[name].value
    return 0.0 if isinstance(value, Unknown) else float(value)


def _rank(measured: Measured, facts: Facts, ranks: int) -> RankReport:
    ledger = ledger_of([measured.timeline], [measured.attribution])
    name = measured.timeline.device_name or "unknown device"
    verdict: Verdict = verdict_of(ledger, _grounds([measured.timeline], facts))
    return RankReport(rank=measured.timeline.rank, device=name, verdict=verdict, ledger=ledger)


Judged = list[tuple[Rule, Judgement]]


def _findings(judged: Judged, facts: Facts, outlook: Outlook) -> tuple[Finding, ...]:
    """The rules that fired: what makes the answer unsafe first, then by what the change buys."""
    found = [_finding(rule, judgement, facts, outlook) for rule, judgement in judged if _fired(judgement)]
    return tuple(sorted(found, key=_precedence))


def _fired(judgement: Judgement) -> bool:
    return judgement.answer in _SEVERITY_ORDER


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
        do=rule.sentence(rule.do, facts),
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


def _plan(facts: Facts, outlook: Outlook) -> tuple[PlanStep, ...]:
    return tuple(
        PlanStep(
            rule=step.rule.id,
            patch=_patch(step.rule, facts, outlook),
            predicted_speedup=step.speedup,
            cumulative_speedup=step.cumulative,
            effort=step.rule.effort,
            numerics=step.rule.numerics,
        )
        for step in plan_of(outlook, outlook.fired)
    )


def _outlook(case: Case, fired: Sequence[Rule]) -> Outlook:
    """Of the first rank that is no straggler and can be replayed: curing the late one is a change of its own."""
    late = {blame.rank for blame in case.job.stragglers}
    typical = [m for m in case.measured if m.timeline.rank not in late] or case.measured[:1]
    outlooks = [Outlook(measured, case.facts, fired) for measured in typical]
    return next((outlook for outlook in outlooks if outlook.replay.valid), outlooks[0])


def _replay(outlook: Outlook) -> ReplayReport:
    replay = outlook.replay
    return ReplayReport(
        measured_ns=replay.measured_ns,
        strict_error=replay.strict_error if replay.measured_ns else None,
        valid=replay.valid,
        because=replay.because,
    )


def _not_advised(judged: Judged, facts: Facts, findings: Sequence[Finding]) -> tuple[NotAdvised, ...]:
    """Changes that would not help; never one that a finding proposes."""
    proposed = {key for f in findings if f.patch for key in f.patch.set}
    found = (rule.not_advised(facts, judgement) for rule, judgement in judged)
    return tuple(n for n in found if n is not None and n.what not in proposed)


def _not_judged(judged: Judged, case: Case) -> tuple[NotJudged, ...]:
    found = [
        NotJudged(rule=rule.id, because=judgement.because, capture_next=judgement.capture_next)
        for rule, judgement in judged
        if judgement.answer == "unknown"
    ]
    if case.left_out:
        listed = ", ".join(str(rank) for rank in case.left_out)
        why = f"rank {listed} recorded no GPU activity and is left out: the other ranks did"
        found.insert(0, NotJudged(rule="ranks", because=why, capture_next="capture those ranks again"))
    exposed = case.facts["exposed_communication_share"].value
    if not case.job.view.matched and not isinstance(exposed, Unknown) and float(exposed) > 0:
        unmatched = case.job.view.why_unmatched
        entry = NotJudged(rule="transfer_or_wait", because=unmatched.because, capture_next=unmatched.capture_next)
        found.insert(0, entry)
    return tuple(found)


def _summary(timelines: Sequence[Timeline], without_gpu: Sequence[int]) -> TraceSummary:
    traces = [t.trace for t in timelines]
    kinds = sorted({kind for t in traces for kind in t.loss.kinds})
    return TraceSummary(
        files=tuple(dict.fromkeys(t.path for t in traces)),
        events=sum(len(t) for t in traces),
        bytes=sum(t.size for t in traces),
        loss=Loss(
            events=sum(t.loss.events for t in traces),
            bytes=sum(t.loss.bytes for t in traces),
            truncated=any(t.loss.truncated for t in traces),
            kinds=tuple(kinds),
        ),
        missing_ranks=missing_ranks(timelines, without_gpu),
        left_out=sum(sum(t.left_out.values()) for t in traces),
    )
