"""Breakdowns, facts and rules to a Diagnosis."""

from msgspec.structs import replace

from diagnose.diagnosis import (
    NOT_RECOMMENDED,
    Diagnosis,
    LedgerEntry,
    Mfu,
    Origin,
    PlanStep,
    StepTimeline,
    WaterfallPart,
)
from diagnose.diagnosis.capacity import NO_CAPACITY, WITHOUT_RECORD, Capacity
from diagnose.diagnosis.postmortem import Postmortem, Straggler
from diagnose.judge.advice import advice_of
from diagnose.judge.breakdown import breakdown_of, divided_by_step, grounds_of, rank_report, steps_of
from diagnose.judge.case import Case
from diagnose.judge.cost import cost_of
from diagnose.judge.findings import weights_of
from diagnose.judge.kernel_table import kernel_rows, roofs_of, versions_of
from diagnose.judge.mfu import matrix_time_of, mfu_of, operators_of_job, roofline_of_job
from diagnose.judge.next_change import recommended
from diagnose.judge.no_advice import not_advised, not_judged
from diagnose.judge.operator_table import operator_table
from diagnose.judge.origin import origin_of
from diagnose.judge.range_table import range_rows
from diagnose.judge.sections import Sections
from diagnose.judge.setup import setup_of
from diagnose.judge.slow_steps import slow_steps
from diagnose.judge.step_timeline import step_timeline
from diagnose.judge.summary import fact_report, summary_of
from diagnose.judge.user_code import located, user_code_of
from diagnose.judge.verdict import verdict_of
from diagnose.judge.waterfall import MatrixTime, waterfall_of
from diagnose.metrics import Measured
from diagnose.patch.applied import applied_of
from diagnose.ranks.report import postmortem_of
from diagnose.ranks.stragglers.straggler_report import stragglers_of

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
    judged = [(rule, rule.judge(case.facts)) for rule in case.rules]
    verdict = verdict_of(breakdown, grounds_of(ranks, case.facts, case.job.view.distortion))
    work = part("matrix_time", lambda: matrix_time_of(case.measured), None)
    advice = advice_of(case, judged, sections, weights_of(judged, verdict.class_))
    findings, measured = advice.findings, advice.measured
    diagnosis = Diagnosis(
        verdict=verdict,
        steps=steps_of(ranks, case.measured),
        ledger=breakdown,
        waterfall=part("waterfall", lambda: _waterfall(case, breakdown, work), ()),
        mfu=part("mfu", lambda: mfu_of(case.measured, work), NO_MFU),
        roofline=part("roofline", lambda: roofline_of_job(case.measured), ()),
        operators=part("operators", lambda: operators_of_job(case.measured), ()),
        findings=part("user_code", lambda: located(findings, case.rules, case, measured), findings),
        plan=advice.plan,
        replay=advice.replay,
        not_advised=part("not_advised", lambda: not_advised(judged, case.facts), ()),
        applied=part("applied", lambda: applied_of(case.measured[0].record, case.facts), None),
        capacity=part("capacity", lambda: _capacity(case, advice.plan), NO_CAPACITY),
        not_judged=not_judged(judged, case),
        ranks=tuple(rank_report(case, position) for position in range(len(case.job.ranks))),
        rank=case.only,
        origin=part("origin", lambda: origin_of(case), Origin()),
        trains=_trains(case),
        stragglers=part("stragglers", lambda: _stragglers(case), ()),
        postmortem=part("postmortem", lambda: _postmortem(case), None),
        trace=summary_of(case.job.ranks, case.left_out),
        slow_steps=part("slow_steps", lambda: slow_steps(case), ()),
        timeline=part("timeline", lambda: _timeline(measured), None),
        kernels=part("kernels", lambda: kernel_rows(measured), ()),
        host_operators=part("host_operators", lambda: operator_table(measured), ()),
        ranges=part("ranges", lambda: range_rows(measured), ()),
        user_code=part("user_code", lambda: user_code_of(measured), None),
        roofs=part("roofs", lambda: roofs_of(measured), None),
        versions=part("versions", lambda: versions_of(measured), {}),
        setup=part("setup", lambda: setup_of(measured.record), {}),
        facts=tuple(fact_report(fact) for fact in case.facts.values()),
    )
    advised = replace(diagnosis, next=part("next", lambda: recommended(diagnosis), NOT_RECOMMENDED))
    answer = replace(advised, cost=part("cost", lambda: cost_of(advised, case.measured[0].settings), None))
    return replace(answer, not_judged=(*sections.failed, *diagnosis.not_judged))


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
    return postmortem_of(case.job, [m.timeline.rank for m in case.measured], case.measured[0].settings.network_gbs)


def _ranks_per_measured(case: Case) -> float:
    """All ranks' time over that of the measured ones."""
    measured = sum(m.attribution.total_ns for m in case.measured)
    return sum(rank.total_ns for rank in case.ranks) / max(measured, 1)
