"""A diagnosis in one line, for users who read no report."""

from diagnose.diagnosis import Diagnosis
from diagnose.report.views.changes import Full, plan_view
from diagnose.report.views.plain import plain
from diagnose.report.views.summary import verdict_view
from diagnose.report.views.words import first_sentence, speedup


def brief(diagnosis: Diagnosis) -> str:
    """The class, the time of a step, and what to change next: what to type, else what to do; its rule and gain."""
    verdict, plan = verdict_view(diagnosis), plan_view(diagnosis)
    pace = f"{verdict.step_ns} per {verdict.of.removeprefix('device ')}"
    return f"{verdict.class_}, {pace}; next: {plain(plan.nothing) if plan.next is None else _change(plan.next)}"


def _change(full: Full) -> str:
    action = "; ".join(full.typed) or first_sentence(full.finding.do).rstrip(".")
    text = ", ".join(filter(None, (full.finding.rule, speedup(full.finding.predicted_speedup))))
    return f"{action} ({plain(text)})"
