"""Print the changes after the first one, what to leave alone, and what a better recording would answer."""

from collections import defaultdict
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from diagnose.diagnosis import Diagnosis, NotJudged, Severity
from diagnose.report.text.page import Extent, Page, joined
from diagnose.report.views.changes import Full, Headline, findings_view, plan_view
from diagnose.report.views.first_screen import ALTERS
from diagnose.report.views.learn import clauses, leave_alone, to_learn
from diagnose.report.views.plain import plain
from diagnose.report.views.words import evidence_line

ALSO_SHOWN = 2
TWO_SCREENS = 48  # lines of the report of one rank
FOR_LEARNING = 4  # of them
MOST_LINES = 2  # of a change to leave alone
SEVERITY_STYLE = {"critical": "bold red", "warning": "bold yellow", "info": "cyan"}


def print_plan(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """The changes after the next one, a line each, and what all of them buy; with `details` each in full."""
    view = plan_view(diagnosis)
    later = [change for change in view.plan if view.next is None or change.rule != view.next.finding.rule]
    first = len(view.plan) - len(later) + 1 if view.next else 1
    for number, change in enumerate(later, max(first, 2 if view.next else 1)):
        kept = f"; {ALTERS}" if change.numerics else ""
        line = Text.assemble(f"{number}. ", _action(change.headline), kept)
        line = joined([line, change.where, change.record]) if extent.details else line
        page.paragraph(line, label="plan" if change is later[0] else "", most=0 if extent.details else 2)
    if view.withheld and extent.details:
        why = f"no gain that needs a replay is predicted: {plain(view.withheld)}"
        page.paragraph(why, label="" if later else "gains")
    elif view.together:
        gain = Text(f"all {len(view.plan)}: {view.together}", "green")
        page.paragraph(Text.assemble(gain, "; measure after each"))
    severe = [full for full in view.also if full.finding.severity != "info"][: None if extent.details else ALSO_SHOWN]
    for full in severe:
        page.paragraph(_action(full.headline), label="also" if full is severe[0] else "", most=1)
    if view.noise:
        page.paragraph(Text(view.noise, "yellow"), label="" if later else "plan")


def _action(told: Headline) -> Text:
    action = Text(plain(told.action), "bold")
    style = "bold yellow" if told.slows else "bold green"
    return Text.assemble(action, ": ", (told.gain, style)) if told.gain else action


def print_findings(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print every finding in full; only a part of the details."""
    for i, full in enumerate(findings_view(diagnosis) if extent.details else ()):
        page.gap()
        page.paragraph(_headline(full.headline, full.finding.severity), label="" if i else "findings")
        _full(page, full)


def _headline(told: Headline, severity: Severity) -> Text:
    """The change with its gain, then the fault and how severe it is."""
    return joined([_action(told), plain(told.fault), Text(severity, SEVERITY_STYLE[severity])])


def _full(page: Page, full: Full) -> None:
    finding = full.finding
    page.paragraph(plain(finding.says))
    fields: tuple[tuple[str, Text | str], ...] = (
        ("evidence", evidence_line(finding.evidence)),
        ("where", full.where or (full.no_line and f"unknown: {full.no_line}")),
        ("so far", full.record),
        ("do", plain(finding.do)),
        ("gain" if finding.predicted_speedup is None else "assumes", plain(finding.assumes)),
        *(("edit", Text(line, "bold")) for line in full.typed),
        ("or", Text(full.flags, "bold")),
        ("try", Text(full.apply, "bold")),
    )
    for name, text in fields:
        if text:
            page.field(name, text)


def print_not_advised(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Changes that would not help, and why: those that a user would think of first, or with `details` all."""
    items = diagnosis.not_advised if extent.details else leave_alone(diagnosis)
    if items:
        page.gap()
    one_rank = len(diagnosis.ranks) < 2 and not extent.details
    for i, item in enumerate(items):
        if one_rank and page.printed > TWO_SCREENS - FOR_LEARNING - MOST_LINES:
            break
        room = 2 * (page.width - page.label) - cell_len(plain(item.what)) - 12
        because = item.because if extent.details else clauses(item.because, room)
        line = Text.assemble((plain(item.what), "bold"), ": ", plain(because))
        page.paragraph(line, label="" if i else "leave alone", most=0 if extent.details else MOST_LINES)


def print_not_judged(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the recordings that answer most questions; with `details` each question and why it is open."""
    if extent.details:
        _every_reason(page, diagnosis.not_judged)
        return
    for i, advice in enumerate(to_learn(diagnosis)):
        if i and len(diagnosis.ranks) < 2 and page.printed > TWO_SCREENS - MOST_LINES - 1:
            break
        page.paragraph(advice, label="" if i else "to learn more", most=3)


def _every_reason(page: Page, items: Sequence[NotJudged]) -> None:
    """Rules that miss the same measurement share one entry."""
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        by_reason[plain(item.because), plain(item.capture_next)].append(plain(item.rule))
    for i, ((because, capture_next), rules) in enumerate(by_reason.items()):
        page.paragraph(joined([Text(", ".join(rules), "bold"), because]), label="" if i else "open")
        if capture_next:
            page.field("do", capture_next)
