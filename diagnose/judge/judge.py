"""Ledgers, facts and rules to a Diagnosis."""

from diagnose.applied import applied_of
from diagnose.diagnosis import Diagnosis
from diagnose.excerpt import with_excerpt
from diagnose.judge.case import Case
from diagnose.judge.findings import findings_of, plan_steps
from diagnose.judge.ledger import grounds_of, ledger_of, rank_report, steps_of
from diagnose.judge.no_advice import not_advised, not_judged
from diagnose.judge.outlook import outlook_of, replay_report
from diagnose.judge.summary import fact_report, summary_of
from diagnose.postmortem import Postmortem, Straggler
from diagnose.ranks.report import postmortem_of
from diagnose.ranks.straggler_report import stragglers_of
from diagnose.utilisation import matrix_time_of, mfu_of, operators_of_job, roofline_of_job
from diagnose.verdict import verdict_of
from diagnose.waterfall import waterfall_of


def diagnose(case: Case) -> Diagnosis:
    """The diagnosis of one job."""
    ranks = case.ranks
    ledger = ledger_of(case.job, case.positions)
    judged = [(rule, rule.judge(case.facts)) for rule in case.rules]
    verdict = verdict_of(ledger, grounds_of(ranks, case.facts))
    work = matrix_time_of(case.measured)
    outlook = outlook_of(case, judged)
    findings = findings_of(judged, case.facts, outlook)
    found = Diagnosis(
        verdict=verdict,
        steps=steps_of(ranks),
        ledger=ledger,
        waterfall=waterfall_of(ledger, work and work.scaled(_ranks_per_measured(case))),
        mfu=mfu_of(case.measured, work),
        roofline=roofline_of_job(case.measured),
        operators=operators_of_job(case.measured),
        findings=findings,
        plan=plan_steps(case.facts, outlook),
        replay=replay_report(outlook),
        not_advised=not_advised(judged, case.facts, findings),
        applied=applied_of(case.measured[0].record, case.facts),
        not_judged=not_judged(judged, case),
        ranks=tuple(rank_report(case, position) for position in range(len(case.job.ranks))),
        rank=case.only,
        stragglers=_stragglers(case),
        postmortem=_postmortem(case),
        trace=summary_of(case.job.ranks, case.left_out),
        facts=tuple(fact_report(fact) for fact in case.facts.values()),
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
