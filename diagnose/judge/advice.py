"""The advice for one rank: findings with their gains, the plan, and how far the replay can be trusted."""

from collections.abc import Mapping

import msgspec

from diagnose.diagnosis import Finding, PlanStep, ReplayReport
from diagnose.judge.case import Case, Judged
from diagnose.judge.findings import findings_of, plan_steps
from diagnose.judge.sections import Sections
from diagnose.judge.typical_rank import predictor_of, replay_report
from diagnose.metrics import Measured
from diagnose.predict.plan import Weight


class Advice(msgspec.Struct, frozen=True):
    """The findings, the plan and the replay's report, without the replay: its arrays are as large as the later tables'.

    `measured` is the rank that was replayed.
    """

    measured: Measured
    findings: tuple[Finding, ...]
    plan: tuple[PlanStep, ...]
    replay: ReplayReport


def advice_of(case: Case, judged: Judged, sections: Sections, weights: Mapping[str, Weight]) -> Advice:
    """The advice by the rank whose step is replayed with each change."""
    predictor = predictor_of(case, judged)
    nothing_planned: tuple[PlanStep, ...] = ()
    return Advice(
        measured=predictor.measured,
        findings=findings_of(judged, case.facts, predictor, sections, weights),
        plan=sections.part("plan", lambda: plan_steps(case.facts, predictor, weights), nothing_planned),
        replay=replay_report(predictor),
    )
