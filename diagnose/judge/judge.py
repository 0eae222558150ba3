"""Breakdowns, facts and rules to a Diagnosis."""

import datetime
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from diagnose.diagnosis import (
    NOT_RECOMMENDED,
    Applied,
    Diagnosis,
    FactReport,
    Finding,
    Goodput,
    LedgerEntry,
    Loss,
    Mfu,
    NotAdvised,
    NotJudged,
    Origin,
    PlanStep,
    ReplayReport,
    SlowStep,
    Speed,
    Steps,
    StepTimeline,
    TraceSummary,
    VerdictClass,
    WaterfallPart,
)
from diagnose.diagnosis.capacity import NO_CAPACITY, WITHOUT_RECORD, Capacity
from diagnose.diagnosis.postmortem import Postmortem, Straggler
from diagnose.facts import Fact, Facts, Unknown, another_run
from diagnose.judge.applied import applied_of
from diagnose.judge.breakdown import breakdown_of, divided_by_step, grounds_of, rank_report, steps_of
from diagnose.judge.case import Case, Judged
from diagnose.judge.cost import cost_of
from diagnose.judge.findings import STRAGGLER, findings_of, in_effect_already, plan_steps, weights_of, withholding_first
from diagnose.judge.goodput import goodput_of
from diagnose.judge.job_timeline import job_timeline
from diagnose.judge.kernel_table import kernel_rows, roofs_of, versions_of
from diagnose.judge.memory_over_time import memory_over_time
from diagnose.judge.mfu import matrix_time_of, mfu_of, operators_of_job, roofline_of_job
from diagnose.judge.next_change import recommended
from diagnose.judge.operator_table import operator_table
from diagnose.judge.period import over_period, period_of
from diagnose.judge.range_table import range_rows
from diagnose.judge.sections import Sections
from diagnose.judge.slow_steps import slow_steps
from diagnose.judge.speed import speed_of
from diagnose.judge.start import start_of, with_start
from diagnose.judge.step_timeline import step_timeline
from diagnose.judge.step_times import step_times
from diagnose.judge.user_code import located, user_code_of
from diagnose.judge.verdict import class_to_cure, verdict_of
from diagnose.judge.waterfall import MatrixTime, waterfall_of
from diagnose.metrics import Measured
from diagnose.metrics.model.tokens import tokens_of
from diagnose.metrics.unknowns import NO_GPU
from diagnose.patch.job_framework import framework_of
from diagnose.patch.refusals import ALREADY
from diagnose.predict.crowded import TOO_BUSY, is_too_busy
from diagnose.predict.whatif import Predictor
from diagnose.ranks import RankDigest, missing_ranks
from diagnose.ranks.report import postmortem_of
from diagnose.ranks.stragglers.straggler_report import stragglers_of
from diagnose.rule import Rule
from diagnose.trace.record_setup import setup_of

NO_MFU = Mfu(
    value=None,
    reason="not judged: a bug in diagnose, in mfu",
    numerator="",
    model_flops_per_step=None,
    peak_flops=None,
    peak_source="unknown",
)


def diagnose(case: Case) -> Diagnosis:
    """The diagnosis of one job."""
    ranks, part = case.ranks, (sections := Sections()).part
    undivided = breakdown_of(case.job, case.positions)
    breakdown = part("ledger_by_step", lambda: divided_by_step(undivided, case.job, case.positions), undivided)
    work, steps = part("matrix_time", lambda: matrix_time_of(case.measured), None), steps_of(ranks, case.measured)
    mfu = part("mfu", lambda: mfu_of(case.measured, work), NO_MFU)
    period = part("period", lambda: period_of(case), None)
    if period is not None:
        steps, breakdown, work, mfu = over_period(period, steps, breakdown, work, mfu)
    slow: tuple[SlowStep, ...] = part("slow_steps", lambda: slow_steps(case), ())
    judged = [(rule, rule.judge(case.facts)) for rule in case.rules]
    verdict = verdict_of(breakdown, grounds_of(case, ranks))
    advice = advice_of(case, judged, sections, class_to_cure(breakdown, verdict))
    findings, measured = withholding_first(advice.findings, verdict), advice.measured
    diagnosis = Diagnosis(
        verdict=verdict,
        steps=steps,
        speed=part("speed", lambda: speed_of(case, steps, verdict, period), Speed()),
        ledger=breakdown,
        waterfall=part("waterfall", lambda: _waterfall(case, breakdown, work), ()),
        mfu=mfu,
        period=period,
        roofline=part("roofline", lambda: roofline_of_job(case.measured), ()),
        operators=part("operators", lambda: operators_of_job(case.measured), ()),
        findings=part("user_code", lambda: located(findings, case.rules, case, measured), findings),
        plan=advice.plan,
        replay=advice.replay,
        not_advised=part("not_advised", lambda: not_advised(judged, case.facts), ()),
        applied=part("applied", lambda: _applied(case, steps), None),
        capacity=part("capacity", lambda: _capacity(case, advice.plan), NO_CAPACITY),
        not_judged=not_judged(judged, case),
        ranks=tuple(rank_report(case, position) for position in range(len(case.job.ranks))),
        rank=case.only,
        origin=part("origin", lambda: origin_of(case), Origin()),
        trains=_trains(case),
        cpu_only=case.facts["gpu_record"].value == "no GPU",
        stragglers=part("stragglers", lambda: _stragglers(case), ()),
        postmortem=part("postmortem", lambda: _postmortem(case), None),
        trace=summary_of(case.job.ranks, case.left_out),
        slow_steps=slow,
        step_times=part("step_times", lambda: step_times(case), None),
        memory_over_time=part("memory_over_time", lambda: memory_over_time(case), None),
        goodput=part("goodput", lambda: _goodput(case), None),
        timeline=part("timeline", lambda: _timeline(measured), None),
        job_timeline=part("job_timeline", lambda: job_timeline(case, slow), None),
        kernels=part("kernels", lambda: kernel_rows(measured), ()),
        host_operators=part("host_operators", lambda: operator_table(measured), ()),
        ranges=part("ranges", lambda: range_rows(measured), ()),
        user_code=part("user_code", lambda: user_code_of(measured), None),
        roofs=part("roofs", lambda: roofs_of(measured), None),
        versions=part("versions", lambda: versions_of(measured), {}),
        setup=part("setup", lambda: setup_of(measured.record), {}),
        command=tuple(case.measured[0].record.get("command") or ()),
        facts=tuple(fact_report(fact) for fact in case.facts.values()),
    )
    chosen = replace(diagnosis, next=part("next", lambda: recommended(diagnosis, len(case.rules)), NOT_RECOMMENDED))
    answer = replace(chosen, cost=part("cost", lambda: cost_of(chosen, case.measured[0].settings), None))
    return replace(answer, not_judged=(*sections.failed, *diagnosis.not_judged))


def _goodput(case: Case) -> Goodput | None:
    records = [each.record for each in case.measured]
    return with_start(goodput_of(records[0]), start_of(records))


def _applied(case: Case, steps: Steps) -> Applied | None:
    first = case.measured[0]
    tokens = tokens_of(first)
    return applied_of(first.record, case.facts, steps, None if isinstance(tokens, Unknown) else tokens.per_step)


def _timeline(measured: Measured) -> StepTimeline | None:
    """The typical step as a timeline; None if the profiler distorts the step, since a drawing shows shares."""
    return None if measured.job.distortion is not None else step_timeline(measured)


def _capacity(case: Case, plan: tuple[PlanStep, ...]) -> Capacity:
    if not case.measured[0].record:
        return Capacity(because=WITHOUT_RECORD)
    from diagnose.judge.capacity import capacity_of  # plans memory, which most traces do not record

    by_id = {rule.id: rule for rule in case.rules}
    return capacity_of(case.measured[0], [by_id[step.rule] for step in plan], case.facts)


def _trains(case: Case) -> bool | None:
    trains = case.facts["trains"].value
    return trains if isinstance(trains, bool) else None


def _waterfall(case: Case, breakdown: tuple[LedgerEntry, ...], work: MatrixTime | None) -> tuple[WaterfallPart, ...]:
    return waterfall_of(breakdown, work and work.scaled(_ranks_per_measured(case)))


def _stragglers(case: Case) -> tuple[Straggler, ...]:
    price = case.measured[0].settings.gpu_hour_price
    return stragglers_of(case.job, [m.timeline for m in case.measured], price)


def _postmortem(case: Case) -> Postmortem | None:
    found = postmortem_of(case.job, [m.timeline.rank for m in case.measured])
    return replace(found, changes=(), no_changes_because=TOO_BUSY) if found and is_too_busy(case.facts) else found


def _ranks_per_measured(case: Case) -> float:
    """All ranks' time over that of the measured ones."""
    measured = sum(m.attribution.total_ns for m in case.measured)
    return sum(rank.total_ns for rank in case.ranks) / max(measured, 1)


# Changes that would not help, and rules that could not be judged.


def not_advised(judged: Judged, facts: Facts) -> tuple[NotAdvised, ...]:
    """Changes that would not help, named as the training framework names them, except those that a finding proposes.

    Changes that a fault asks for and the job refuses come first; several rules may ask for one change.
    """
    patches = [rule.patch_for(facts) for rule, judgement in judged if judgement.fired]
    proposed = {key for patch in patches if patch for key in patch.set}
    found = [(rule, rule.not_advised(facts, judgement)) for rule, judgement in judged]
    known = [(rule, replace(n, class_=rule.class_)) for rule, n in found if n is not None]
    refused = [
        replace(n, because=in_effect_already(rule, facts, judged)) if n.because == ALREADY else n
        for rule, n in known
        if n.because == rule.refusing.because
    ]
    others = [n for rule, n in known if n.because != rule.refusing.because and n.what not in proposed]
    named = framework_of(facts).named
    told = [replace(n, what=", ".join(map(named, n.what.split(", ")))) for n in (*refused, *others)]
    first: dict[tuple[str, str], NotAdvised] = {}
    for advice in told:
        first.setdefault((advice.what, advice.because), advice)
    return tuple(first.values())


def not_judged(judged: Judged, case: Case) -> tuple[NotJudged, ...]:
    """Rules whose facts are unknown, after what the ranks as a whole leave open."""
    entries = [
        replace(lacking, title=rule.title, class_=rule.class_, of_gpu=NO_GPU.capture in judgement.captures)
        for rule, judgement in judged
        if judgement.answer == "unknown"
        for lacking in [NotJudged.lacking(rule.id, judgement.because, *judgement.captures)]
    ]
    if case.left_out:
        listed = ", ".join(str(rank) for rank in case.left_out)
        why = f"rank {listed} recorded no GPU activity and is left out: the other ranks did"
        entries.insert(0, NotJudged.lacking("ranks", why, another_run("capture those ranks again")))
    exposed = case.facts["exposed_communication_share"].value
    undivided = case.job.view.undivided
    if undivided and not isinstance(exposed, Unknown) and float(exposed) > 0:
        entries.insert(0, NotJudged.lacking("transfer_or_wait", undivided.because, undivided.capture))
    return tuple(entries)


# The advice for one rank: findings with their gains, the plan, and how far the replay can be trusted.


class Advice(msgspec.Struct, frozen=True):
    """The findings, the plan and the replay's report, without the replay: its arrays are as large as the later tables'.

    `measured` is the rank that was replayed.
    """

    measured: Measured
    findings: tuple[Finding, ...]
    plan: tuple[PlanStep, ...]
    replay: ReplayReport


def advice_of(case: Case, judged: Judged, sections: Sections, bound_by: VerdictClass) -> Advice:
    """The advice by the rank whose step is replayed with each change."""
    predictor = predictor_of(case, judged)
    weights = weights_of(judged, bound_by, case.facts, predictor)
    nothing_planned: tuple[PlanStep, ...] = ()
    return Advice(
        measured=predictor.measured,
        findings=findings_of(judged, case.facts, predictor, sections, weights),
        plan=sections.part("plan", lambda: plan_steps(case.facts, predictor, weights), nothing_planned),
        replay=replay_report(predictor),
    )


# The rank whose step is replayed with each change, and how far that replay can be trusted.


def predictor_of(case: Case, judged: Judged) -> Predictor:
    """The predictor of the first rank that can be replayed and is no straggler, whose cure is a change of its own."""
    fired = [rule for rule, judgement in judged if judgement.fired and not _is_own(rule, case)]
    late = {straggler.rank for straggler in case.job.stragglers}
    typical = [m for m in case.measured if m.timeline.rank not in late] or case.measured[:1]
    predictors = [Predictor(measured, case.facts, fired) for measured in typical]
    return next((predictor for predictor in predictors if predictor.replay.valid), predictors[0])


def _is_own(rule: Rule, case: Case) -> bool:
    """Whether the rule is about the very rank that the diagnosis is of: what makes it late has rules of its own."""
    return rule.id == STRAGGLER and case.only in {straggler.rank for straggler in case.job.stragglers}


def replay_report(predictor: Predictor) -> ReplayReport:
    """The difference between the replay of the unchanged step and the measured step."""
    replay = predictor.replay
    return ReplayReport(
        measured_ns=replay.measured_ns,
        strict_error=replay.strict_error if replay.measured_ns else None,
        valid=replay.valid,
        because=replay.because,
    )


# The input and the measurements as the diagnosis records them.


def fact_report(fact: Fact) -> FactReport:
    """The measurement, or why there is none."""
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


def summary_of(ranks: Sequence[RankDigest], without_gpu: Sequence[int]) -> TraceSummary:
    """The files that the ranks came from, added up; `without_gpu` are ranks of the job that are left out."""
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
        shapes_of=tuple(dict.fromkeys(source.shapes_of for source in sources if source.shapes_of)),
        processes=tuple(f"rank {rank.rank} is {rank.source.process}" for rank in ranks if rank.source.process),
    )


# The start of the job by the clock of its traces, and its Slurm number by its capture record.

_EARLIEST_S, _LATEST_S = 1_420_070_400, 4_102_444_800  # 2015, before which no trace is of torch, to 2100


def origin_of(case: Case) -> Origin:
    """The origin of the job, each part from the first rank that has it."""
    began = (rank.base_ns + int(rank.windows[0, 0]) for rank in case.job.ranks if rank.steps)
    seconds = (ns // 1_000_000_000 for ns in began)
    slurm = (measured.record.text("slurm.SLURM_JOB_ID") for measured in case.measured)
    return Origin(
        began=next((_utc(s) for s in seconds if _EARLIEST_S <= s < _LATEST_S), ""),
        slurm_job=next((number for number in slurm if number), ""),
    )


def _utc(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
