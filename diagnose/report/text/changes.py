"""Print the next change, those after it, what would not help, and what could not be judged."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from rich.cells import cell_len
from rich.text import Text

from diagnose.diagnosis import Diagnosis, NotJudged, Severity
from diagnose.report.text.page import LABEL, Extent, Page, joined
from diagnose.report.views.changes import (
    CaptureAdvice,
    Full,
    Headline,
    PlanView,
    captures_view,
    findings_view,
    plan_view,
)
from diagnose.report.views.plain import plain
from diagnose.report.views.words import evidence_line, first_sentence

EACH_ON_TOP = "each gain is on top of those above it"
NOT_SHOWN = 4
CAPTURES_SHOWN = 4
MOST_LINES = 2  # of one entry below the plan
SEVERITY_STYLE = {"critical": "bold red", "warning": "bold yellow", "info": "cyan"}


def print_plan(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """The next change in full, and the plan after it."""
    view = plan_view(diagnosis)
    if view.next is None:
        page.paragraph(view.nothing, label="next:")
    else:
        page.paragraph(_headline(view.next.headline, view.next.finding.severity), label="next:")
        if view.joined:
            page.paragraph(plain(view.joined))
        _full(page, view.next, extent.details)
    later = [change for change in view.plan if view.next is None or change.rule != view.next.finding.rule]
    page.entries(
        "then:", [joined([_brief(change.headline, change.says), change.where, change.record]) for change in later]
    )
    _together(page, view)
    if view.noise:
        page.paragraph(Text(view.noise, "yellow"))


def print_next(page: Page, diagnosis: Diagnosis) -> None:
    """The next change in a line."""
    view = plan_view(diagnosis)
    if view.next is None:
        page.paragraph(view.nothing, label="next:")
        return
    page.paragraph(_brief(view.next.headline, first_sentence(view.next.finding.says)), label="next:")
    if view.next.where:
        page.paragraph(view.next.where)


def _together(page: Page, view: PlanView) -> None:
    """Print the gain of the whole plan, or why nothing is predicted."""
    if view.withheld:
        why = f"no gain that needs a replay is predicted: {plain(view.withheld)}"
        page.paragraph(why, label="" if view.plan else "gains:")
    elif view.together:
        kept = f"numerics change with {', '.join(view.numerics)}" if view.numerics else ""
        page.paragraph(joined([Text(f"together {view.together}", "green"), EACH_ON_TOP, kept]))


def _headline(told: Headline, severity: Severity) -> Text:
    """The change with its gain, then the fault and how severe it is."""
    return joined([_action(told), plain(told.fault), Text(severity, SEVERITY_STYLE[severity])])


def _action(told: Headline) -> Text:
    action = Text(plain(told.action), "bold")
    style = "bold yellow" if told.slows else "bold green"
    return Text(" ").join([action, Text(f"({told.gain})", style)]) if told.gain else action


def _full(page: Page, full: Full, details: bool) -> None:
    finding = full.finding
    page.paragraph(plain(finding.says))
    if finding.evidence:
        page.field("evidence", evidence_line(finding.evidence))
    if full.where or (details and full.no_line):
        page.field("where", full.where or f"unknown: {full.no_line}")
    if full.record:
        page.field("so far", full.record)
    page.field("do", plain(finding.do))
    if finding.assumes and finding.predicted_speedup is None:
        page.field("gain", plain(finding.assumes))
    elif finding.assumes and details:
        page.field("assumes", plain(finding.assumes))
    for i, line in enumerate(full.typed):
        page.field("" if i else "type", Text(line, "bold"))
    if details and full.flags:
        page.field("or", Text(full.flags, "bold"))
    if full.apply:
        page.field("try", Text(full.apply, "bold"))


def _brief(told: Headline, says: str) -> Text:
    """The change with its gain, then the fault in a sentence."""
    return joined([_action(told), plain(told.fault), says])


def print_findings(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print findings: with `details` all except the next change in full, else those that have no place elsewhere."""
    view = plan_view(diagnosis)
    if not extent.details:
        _also(page, view.also)
        return
    first = view.next and view.next.finding
    for i, full in enumerate(full for full in findings_view(diagnosis) if full.finding is not first):
        page.gap()
        page.paragraph(_headline(full.headline, full.finding.severity), label="" if i else "also:")
        _full(page, full, details=True)


def _also(page: Page, findings: Sequence[Full]) -> None:
    """The severe ones with a sentence, the others by name."""
    entries = [
        joined([_headline(full.headline, full.finding.severity), first_sentence(full.finding.says)])
        for full in findings
        if full.finding.severity != "info"
    ]
    names = ", ".join(plain(full.finding.rule) for full in findings if full.finding.severity == "info")
    if names:
        entries.append(Text(f"{names} (info: --details)"))
    page.entries("also:", entries, most=MOST_LINES)


def print_not_advised(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Changes that would not help, and why."""
    page.gap()
    items = diagnosis.not_advised
    shown = items if extent.details else items[:NOT_SHOWN]
    texts = [joined([Text(plain(item.what), "bold"), plain(item.because)]) for item in shown]
    page.entries("not:", texts, len(items) - len(shown), most=0 if extent.details else MOST_LINES)


def print_not_judged(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print what to capture for which rules; with `details` every reason."""
    if extent.details:
        _every_reason(page, diagnosis.not_judged)
    else:
        _to_capture(page, captures_view(diagnosis))


def _to_capture(page: Page, captures: Sequence[CaptureAdvice]) -> None:
    """One line for each thing to capture, with the rules that it lets judge; least to do, then most rules first."""
    useful = [capture for capture in captures if capture.what]
    ordered = sorted(useful, key=lambda capture: (capture.things, -len(capture.rules)))
    shown = [capture for capture in ordered if capture.things <= 2][:CAPTURES_SHOWN]
    lines = [_capture_line(page, capture.what, [plain(rule) for rule, _ in capture.rules]) for capture in shown]
    hidden = sum(len(capture.rules) for capture in captures) - sum(len(capture.rules) for capture in shown)
    page.entries("not judged:", lines, hidden, most=MOST_LINES)


def _capture_line(page: Page, capture: str, rules: Sequence[str]) -> Text:
    """A line with as many rules as fit, at least one, and the number of the rest."""
    room = page.width - LABEL
    for shown in range(len(rules), 0, -1):
        more = f", +{len(rules) - shown}" if shown < len(rules) else ""
        line = Text.assemble((capture, "bold"), f" -> {', '.join(islice(rules, shown))}{more}")
        if cell_len(line.plain) <= room:
            break
    return line


def _every_reason(page: Page, items: Sequence[NotJudged]) -> None:
    """Rules that miss the same measurement share one entry."""
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        by_reason[plain(item.because), plain(item.capture_next)].append(plain(item.rule))
    for i, ((because, capture_next), rules) in enumerate(by_reason.items()):
        page.paragraph(joined([Text(", ".join(rules), "bold"), because]), label="" if i else "not judged:")
        if capture_next:
            page.field("do", capture_next)
