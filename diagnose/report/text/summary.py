"""Print the surroundings of the answer: how MFU and steps were counted, windows, history, costs, and files."""

from rich.text import Text

from diagnose.diagnosis import Diagnosis, TraceSummary
from diagnose.facts import spoken
from diagnose.report.text.changes import SEVERITY_STYLE
from diagnose.report.text.page import Extent, Page, joined
from diagnose.report.views.cost import cost_lines
from diagnose.report.views.goodput import goodput_view
from diagnose.report.views.plain import plain
from diagnose.report.views.slow_steps import explained_slow_steps, slow_steps_view
from diagnose.report.views.summary import history_lines, loss_line, notes_of, shapes_line, steps_line, verdict_view
from diagnose.report.views.windows import windows_lines
from diagnose.report.views.words import counted, first_sentence

WINDOWS_SHOWN = 1
EXPLAINED_SHOWN = 3


def print_mfu(page: Page, diagnosis: Diagnosis) -> None:
    """The grounds of the verdict, and how MFU is counted, by each convention."""
    view = verdict_view(diagnosis)
    page.paragraph(plain(view.because), label="grounds")
    if view.between:
        page.paragraph(f"between {view.between}")
    for i, line in enumerate(view.mfu_details or [view.mfu_line]):
        page.paragraph(Text(line, "dim"), label="" if i else "MFU")


def print_steps(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print which steps were counted; only a part of the details."""
    if extent.details:
        page.paragraph(steps_line(diagnosis), label="steps")


def print_notes(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the findings that make the numbers less certain; only a part of the details."""
    for finding in notes_of(diagnosis) if extent.details else ():
        severity = Text(finding.severity, SEVERITY_STYLE[finding.severity])
        says = first_sentence(finding.says)
        page.paragraph(joined([Text(plain(finding.rule), "bold"), severity, says]), label="note", most=2)


def print_windows(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the window that the report is of, and how the latest others differ from it; all others with details."""
    lines = windows_lines(diagnosis)
    shown = lines if extent.details else lines[: 1 + WINDOWS_SHOWN]
    if lines:
        page.entries("windows", [Text(line) for line in shown], len(lines) - len(shown))


def print_history(page: Page, diagnosis: Diagnosis, _: Extent) -> None:
    """Print the changes of the step time over the run."""
    for i, says in enumerate(history_lines(diagnosis)):
        page.paragraph(Text(plain(says), "yellow"), label="" if i else "history", most=2)


def print_goodput(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the parts of the wall time of the process, and of its start with the first remedy; all with details."""
    for label, line in (goodput_view(diagnosis) or [])[: None if extent.details else 3]:
        page.paragraph(plain(line), label=label)


def print_slow_steps(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """The steps that took much longer than the median one: with `details` each, else those that are explained."""
    explained = explained_slow_steps(diagnosis)[:EXPLAINED_SHOWN]
    lines = [view.line for view in slow_steps_view(diagnosis) or []] if extent.details else explained
    for i, line in enumerate(lines):
        page.paragraph(plain(line), label="" if i else "slow steps", most=2 + (not extent.details))


def print_cost(page: Page, diagnosis: Diagnosis, _: Extent) -> None:
    """Print the cost of the job, a sentence each, if a price or a power is known."""
    lines = cost_lines(diagnosis) or []
    for i, line in enumerate(lines):
        page.paragraph(Text(line, "dim" if line is lines[-1] else ""), label="" if i else "cost")


def print_provenance(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print what was left out, and with `details` what was read and lost."""
    trace = diagnosis.trace
    _left_out(page, trace)
    if not extent.details:
        return
    if loss_line(trace):
        page.paragraph(Text(loss_line(trace), "yellow"), label="lost")
    size = f"{counted(len(trace.files), 'file')}, {counted(trace.events, 'event')}, {spoken(trace.bytes, 'bytes')}"
    shapes = shapes_line(trace)
    more = "diagnose explain RULE says more about a rule"
    page.paragraph(Text(f"{size}{shapes and f'; shapes {shapes}'}; {more}", "dim"), label="read")
    for file in trace.files:
        page.paragraph(Text(plain(file), "dim"))


def _left_out(page: Page, trace: TraceSummary) -> None:
    """Files and events that the answer does without."""
    if trace.left_out:
        text = f"{counted(trace.left_out, 'event')} of Python functions, to save memory; --python-functions keeps them"
        page.paragraph(Text(text, "yellow"), label="left out")
    for file in trace.copies:
        page.paragraph(Text(f"{plain(file)}, a copy of another file", "dim"), label="left out")
    for file in trace.skipped:
        page.paragraph(Text(f"{plain(file)}, which is no file", "yellow"), label="left out")
