"""The terminal report: verdict, breakdown, ranks, what to change next, what would not help, what could not be
judged.
"""

from collections.abc import Callable

from rich.console import Console

from diagnose.diagnosis import Diagnosis
from diagnose.errors.defects import netted
from diagnose.report.text.breakdown import print_breakdown
from diagnose.report.text.capacity import print_capacity
from diagnose.report.text.changes import (
    print_findings,
    print_next,
    print_not_advised,
    print_not_judged,
    print_plan,
)
from diagnose.report.text.job import print_job, print_late_ranks, print_missing, print_ranks
from diagnose.report.text.kernels import print_host_operators, print_kernels
from diagnose.report.text.page import Extent, Page
from diagnose.report.text.ranges import print_ranges
from diagnose.report.text.roofline import print_roofline
from diagnose.report.text.summary import (
    print_applied,
    print_cost,
    print_history,
    print_notes,
    print_provenance,
    print_slow_steps,
    print_steps,
    print_verdict,
    verdict_line,
)
from diagnose.report.text.user_code import print_user_code
from diagnose.report.views.sections import LeftOut, spelled

SECTIONS: dict[str, Callable[[Page, Diagnosis, Extent], None] | LeftOut] = {
    "verdict": print_verdict,
    "steps": print_steps,
    "applied": print_applied,
    "notes": print_notes,
    "history": print_history,
    "slow_steps": print_slow_steps,
    "late_ranks": print_late_ranks,
    "missing": print_missing,
    "ledger": print_breakdown,
    "timeline": LeftOut("lines of text cannot draw it; --html does"),
    "roofline": print_roofline,
    "kernels": print_kernels,
    "host_operators": print_host_operators,
    "user_code": print_user_code,
    "ranges": print_ranges,
    "capacity": print_capacity,
    "ranks": print_ranks,
    "job": print_job,
    "plan": print_plan,
    "cost": print_cost,
    "findings": print_findings,
    "not_advised": print_not_advised,
    "not_judged": print_not_judged,
    "provenance": print_provenance,
}


def render(diagnosis: Diagnosis, console: Console, *, details: bool = False, kernels: int = 0) -> None:
    """Print `diagnosis`: one screen, or with `details` everything; `kernels` is how many of the longest to list."""
    page, extent = Page(console), Extent(details, kernels)
    for name, section in SECTIONS.items():
        if not isinstance(section, LeftOut):
            netted(spelled(name), lambda show=section: show(page, diagnosis, extent), page.paragraph)  # type: ignore[misc]


def render_brief(diagnosis: Diagnosis, console: Console) -> None:
    """Print the verdict and the next change only."""
    page = Page(console)
    page.paragraph(verdict_line(diagnosis), label="verdict:")
    print_applied(page, diagnosis, Extent())
    print_next(page, diagnosis)
