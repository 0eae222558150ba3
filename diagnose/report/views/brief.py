"""A diagnosis in one line, for users who read no report."""

from diagnose.diagnosis import Diagnosis
from diagnose.report.views.changes import Full, plan_view
from diagnose.report.views.gains import gain
from diagnose.report.views.plain import plain
from diagnose.report.views.summary import verdict_view
from diagnose.report.views.words import first_sentence

LONGEST_TYPED = 120  # letters; the report has the whole


def brief(diagnosis: Diagnosis) -> str:
    """The class, the time of a step, and what to change next: what to type, else what to do; its rule and gain."""
    verdict, plan = verdict_view(diagnosis), plan_view(diagnosis)
    pace = f"{verdict.step_ns} per {verdict.of.removeprefix('device ')}"
    return f"{verdict.class_}, {pace}; next: {plain(plan.nothing) if plan.next is None else _change(plan.next)}"


def _in_words(full: Full) -> str:
    return full.finding.action if full.typed else first_sentence(full.finding.do).rstrip(".")


def _change(full: Full) -> str:
    typed = "; ".join(full.typed)
    action = typed if 0 < len(typed) <= LONGEST_TYPED else _in_words(full)
    told = gain(full.finding.predicted_speedup, full.finding.likely_speedup)
    text = ", ".join(filter(None, (full.finding.rule, told)))
    return f"{action} ({plain(text)})"
