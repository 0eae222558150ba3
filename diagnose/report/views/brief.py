"""A diagnosis in one line, for users who read no report."""

from diagnose.diagnosis import Diagnosis
from diagnose.report.views.changes import plan_view
from diagnose.report.views.gains import short
from diagnose.report.views.plain import plain
from diagnose.report.views.words import first_sentence


def brief(diagnosis: Diagnosis) -> str:
    """The class and the next change with its likely gain: "data-bound; set num_workers=3 (about 1.4x)".

    If the verdict is withheld, the line says why.
    """
    verdict, plan = diagnosis.verdict, plan_view(diagnosis)
    class_ = f"no verdict: {verdict.withheld}" if verdict.withheld else verdict.class_
    if plan.next is None:
        return f"{plain(class_)}; {plain(plan.nothing)}"
    finding = plan.next.finding
    action = finding.action or first_sentence(finding.do).rstrip(".")
    told = short(finding)
    return plain(f"{class_}; {action}{f' ({told})' if told else ''}")
