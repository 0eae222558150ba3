"""Ledgers, facts and rules to a Diagnosis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diagnose.applied import applied_of
from diagnose.diagnosis import (
    Diagnosis,
    Evidence,
    FactReport,
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
    TraceSummary,
    Verdict,
)
from diagnose.excerpt import with_excerpt
from diagnose.facts import Fact, Facts, Unknown
from diagnose.metrics import Measured
from diagnose.patches import spelled, without_trainer
from diagnose.plan import plan_of
from diagnose.postmortem import Postmortem, Straggler
from diagnose.ranks import Job, RankDigest, missing_ranks
from diagnose.ranks.report import postmortem_of
from diagnose.ranks.straggler_report import missing_suspect, stragglers_of
from diagnose.rule import Judgement, Rule
from diagnose.utilisation import matrix_time_of, mfu_of, operators_of_job, roofline_of_job
from diagnose.verdict import Grounds, verdict_of
from diagnose.waterfall import waterfall_of
from diagnose.whatif import Outlook

STRAGGLER = "straggler"
DEVICE_STEP, HOST_STEP = "the device step", "the host step"
_SEVERITY_ORDER = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class Case:
    """Everything a diagnosis rests on.

    Attributes:
        job: all ranks, joined.
        measured: the ranks that were measured in full, in order of rank.
        facts: theirs, merged.
        rules: to judge by.
        left_out: ranks whose time is not accounted as that of the others.
        only: the one rank that the diagnosis is of; None for the whole job.
    """

    job: Job
    measured: Sequence[Measured]
    facts: Facts
    rules: Sequence[Rule]
    left_out: tuple[int, ...] = ()
    only: int | None = None

    @property
    def positions(self) -> list[int]:
        """Positions in the job of the ranks that the diagnosis is of."""
        return [at for at, rank in enumerate(self.job.ranks) if self.only in (None, rank.rank)]

    @property
    def ranks(self) -> list[RankDigest]:
        """The ranks that the diagnosis is of."""
        return [self.job.ranks[at] for at in self.positions]


def diagnose(case: Case) -> Diagnosis:
    """The diagnosis of one job."""
    ranks = case.ranks
    ledger = _ledger(case.job, case.positions)
    judged = [(rule, rule.judge(case.facts)) for rule in case.rules]
    verdict = verdict_of(ledger, _grounds(ranks, case.facts))
    work = matrix_time_of(case.measured)
    outlook = _outlook(case, [rule for rule, judgement in judged if _fired(judgement) and not _is_own(rule, case)])
    findings = _findings(judged, case.facts, outlook)
    found = Diagnosis(
        verdict=verdict,
        steps=_steps(ranks),
        ledger=ledger,
        waterfall=waterfall_of(ledger, work and work.scaled(_ranks_per_measured(case))),
        mfu=mfu_of(case.measured, work),
        roofline=roofline_of_job(case.measured),
        operators=operators_of_job(case.measured),
        findings=findings,
        plan=_plan(case.facts, outlook),
        replay=_replay(outlook),
        not_advised=_not_advised(judged, case.facts, findings),
        applied=applied_of(case.measured[0].record, case.facts),
        not_judged=_not_judged(judged, case),
        ranks=tuple(_rank(case, position) for position in range(len(case.job.ranks))),
        rank=case.only,
        stragglers=_stragglers(case),
        postmortem=_postmortem(case),
        trace=_summary(case.job.ranks, case.left_out),
        facts=tuple(_fact(fact) for fact in case.facts.values()),
    )
    return with_excerpt(found, outlook.measured)


def _stragglers(case: Case) -> tuple[Straggler, ...]:
    price = case.measured[0].settings.gpu_hour_price
    return stragglers_of(case.job, [m.timeline for m in case.measured], price)


def _postmortem(case: Case) -> Postmortem | None:
    return postmortem_of(case.job, [m.timeline.rank for m in case.measured], case.measured[0].settings.network_gbs)


def _ranks_per_measured(case: Case) -> float:
    """All ranks' time over that of the measured ones."""
    measured = sum(m.attribution.total_ns for m in case.measured)
    return sum(rank.total_ns for rank in case.ranks) / max(measured, 1)


def _ledger(job: Job, positions: Sequence[int]) -> tuple[LedgerEntry, ...]:
    """Causes of the ranks at the positions added up, largest first; an absent cause has no entry."""
    if any(job.ranks[p].capture_failed for p in positions):
        total = sum(job.ranks[p].host_ns for p in positions)
        return (LedgerEntry(cause="gpu-activity-missing", class_="unexplained", ns=total, share=1.0),)
    sums: dict[tuple[str, str], int] = {}
    for position in positions:
        for key, ns in job.ledger(position).items():
            sums[key] = sums.get(key, 0) + ns
    total = max(sum(sums.values()), 1)
    ordered = sorted(((ns, *key) for key, ns in sums.items() if ns), key=lambda e: (-e[0], e[1]))
    return tuple(
        LedgerEntry(cause=cause, class_=class_, ns=ns, share=ns / total)  # type: ignore[arg-type]
        for ns, cause, class_ in ordered
    )


def _steps(ranks: Sequence[RankDigest]) -> Steps:
    return Steps(
        source=ranks[0].step_source,
        count=sum(rank.steps for rank in ranks),
        time_ns=sum(rank.host_ns for rank in ranks),
        device_time_ns=sum(rank.device_ns for rank in ranks) if all(rank.has_gpu for rank in ranks) else None,
    )


def _grounds(ranks: Sequence[RankDigest], facts: Facts) -> Grounds:
    size = facts["world_size"].value
    has_gpu = all(rank.has_gpu for rank in ranks)
    return Grounds(
        of=DEVICE_STEP if has_gpu else HOST_STEP,
        steps=min(rank.steps for rank in ranks),
        has_gpu=has_gpu,
        capture_failed=any(rank.capture_failed for rank in ranks),
        lost_share=sum(rank.lost_share for rank in ranks) / len(ranks),
        sized_share=sum(rank.sized_share for rank in ranks) / len(ranks),
        alone_of_many=len(ranks) == 1 and not isinstance(size, Unknown) and float(size) > 1,
        late_rank_missing=facts["late_rank_may_be_missing"].value is True,
        waiting_apart=facts["transfer_share"].known,
    )


def _rank(case: Case, position: int) -> RankReport:
    rank, ledger = case.job.ranks[position], _ledger(case.job, [position])
    verdict: Verdict = verdict_of(ledger, _grounds([rank], case.facts))
    return RankReport(
        rank=rank.rank,
        host=rank.host,
        device=rank.device or "unknown device",
        steps=rank.steps,
        verdict=verdict,
        ledger=ledger,
    )


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


def _plan(facts: Facts, outlook: Outlook) -> tuple[PlanStep, ...]:
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


def _is_own(rule: Rule, case: Case) -> bool:
    """Whether the rule is about the very rank that the diagnosis is of: what makes it late has rules of its own."""
    return rule.id == STRAGGLER and case.only in {blame.rank for blame in case.job.stragglers}


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
    if suspect := missing_suspect(case.job):
        found.insert(0, NotJudged(rule="straggler", because=suspect, capture_next="pass the traces of all ranks"))
    exposed = case.facts["exposed_communication_share"].value
    if not case.job.view.matched and not isinstance(exposed, Unknown) and float(exposed) > 0:
        unmatched = case.job.view.why_unmatched
        entry = NotJudged(rule="transfer_or_wait", because=unmatched.because, capture_next=unmatched.capture_next)
        found.insert(0, entry)
    return tuple(found)


def _fact(fact: Fact) -> FactReport:
    if isinstance(fact.value, Unknown):
        why = fact.value
        return FactReport(
            name=fact.name,
            value=None,
            unit=fact.unit,
            of=fact.of,
            because=why.because,
            capture_next=why.capture_next,
        )
    return FactReport(name=fact.name, value=fact.value, unit=fact.unit, of=fact.of)


def _summary(ranks: Sequence[RankDigest], without_gpu: Sequence[int]) -> TraceSummary:
    sources = [rank.source for rank in ranks]
    return TraceSummary(
        files=tuple(dict.fromkeys(source.path for source in sources)),
        events=sum(source.events for source in sources),
        bytes=sum(source.bytes for source in sources),
        loss=Loss(
            events=sum(source.lost_events for source in sources),
            bytes=sum(source.lost_bytes for source in sources),
            truncated=any(source.truncated for source in sources),
            kinds=tuple(sorted({kind for source in sources for kind in source.lost_kinds})),
        ),
        missing_ranks=missing_ranks(ranks, without_gpu),
        left_out=sum(source.left_out for source in sources),
    )
