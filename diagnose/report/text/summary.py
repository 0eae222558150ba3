"""The top and the foot of the terminal report: the verdict with its grounds, and what was read."""

from rich.text import Text

from diagnose.diagnosis import Diagnosis, TraceSummary
from diagnose.facts import spoken
from diagnose.report.text.breakdown import STYLE
from diagnose.report.text.changes import SEVERITY_STYLE
from diagnose.report.text.page import LABEL, Extent, Page, joined
from diagnose.report.views.applied import applied_view
from diagnose.report.views.cost import cost_lines
from diagnose.report.views.plain import plain
from diagnose.report.views.slow_steps import slow_steps_view
from diagnose.report.views.summary import history_lines, loss_line, notes_of, shapes_line, steps_line, verdict_view
from diagnose.report.views.windows import windows_lines
from diagnose.report.views.words import counted, first_sentence, mfu_details, mfu_line

SLOW_STEPS_SHOWN = 3
WINDOWS_SHOWN = 3


def verdict_line(diagnosis: Diagnosis) -> Text:
    """Class, time of a step, MFU and confidence."""
    view = verdict_view(diagnosis)
    speed = f"{view.step_ns} per {view.of.removeprefix('device ')}"
    class_ = Text(view.class_, f"bold {STYLE[view.key]}")
    return joined([class_, speed, f"MFU {view.mfu}", f"confidence {view.confidence}"])


def print_verdict(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """The verdict, what is close to it, its grounds, and what MFU is a share of."""
    view = verdict_view(diagnosis)
    page.paragraph(verdict_line(diagnosis), label="verdict:")
    if view.between:
        page.paragraph(f"between {view.between}")
    because = Text(plain(view.because))
    mfu = Text(mfu_line(diagnosis.mfu, extent.details), "dim" if diagnosis.mfu.value is not None else "")
    together = joined([because, mfu])
    for text in [together] if together.cell_len <= page.width - LABEL else [because, mfu]:
        page.paragraph(text)
    if view.training:
        page.paragraph(Text(view.training, "bold"))
    if view.warning:
        page.paragraph(Text(view.warning, "yellow"))
    for line in mfu_details(diagnosis.mfu) if extent.details else ():
        page.paragraph(Text(line, "dim"))


def print_steps(page: Page, diagnosis: Diagnosis, _: Extent) -> None:
    """Print which steps were counted."""
    page.paragraph(steps_line(diagnosis), label="steps:")


def print_applied(page: Page, diagnosis: Diagnosis, _: Extent) -> None:
    """Print the gain by the patch that the run was started with."""
    view = applied_view(diagnosis)
    if view is not None:
        page.paragraph(Text(view.line, "bold yellow" if view.slower else "bold"), label="applied:")


def print_notes(page: Page, diagnosis: Diagnosis, _: Extent) -> None:
    """Print the findings that make the numbers less certain, a line each."""
    for finding in notes_of(diagnosis):
        severity = Text(finding.severity, SEVERITY_STYLE[finding.severity])
        says = first_sentence(finding.says)
        page.paragraph(joined([Text(plain(finding.rule), "bold"), severity, says]), label="note:", most=2)


def print_windows(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the window that the report is of, and how the latest others differ from it; all others with details."""
    lines = windows_lines(diagnosis)
    shown = lines if extent.details else lines[: 1 + WINDOWS_SHOWN]
    if lines:
        page.entries("windows:", [Text(line) for line in shown], len(lines) - len(shown))


def print_history(page: Page, diagnosis: Diagnosis, _: Extent) -> None:
    """Print the changes of the step time over the run."""
    for i, says in enumerate(history_lines(diagnosis)):
        page.paragraph(Text(plain(says), "yellow"), label="" if i else "history:", most=2)


def print_slow_steps(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """The steps that took much longer than the median one, the first of them; all with details."""
    views = slow_steps_view(diagnosis) or []
    shown = views if extent.details else views[:SLOW_STEPS_SHOWN]
    if shown:
        page.entries("slow steps:", [Text(plain(view.line)) for view in shown], len(views) - len(shown), most=2)


def print_cost(page: Page, diagnosis: Diagnosis, _: Extent) -> None:
    """Print the cost of the job, a sentence each, if a price or a power is known."""
    lines = cost_lines(diagnosis) or []
    for i, line in enumerate(lines):
        page.paragraph(Text(line, "dim" if line is lines[-1] else ""), label="" if i else "cost:")


def print_provenance(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print what was lost, left out and read."""
    trace = diagnosis.trace
    if loss_line(trace):
        page.paragraph(Text(loss_line(trace), "yellow"), label="lost:")
    _left_out(page, trace)
    size = f"{counted(len(trace.files), 'file')}, {counted(trace.events, 'event')}, {spoken(trace.bytes, 'bytes')}"
    more = "diagnose explain RULE says more about a rule" if extent.details else "--details shows the rest"
    shapes = shapes_line(trace)
    page.paragraph(Text(f"{size}{shapes and f'; shapes {shapes}'}; {more}", "dim"), label="read:")
    for file in trace.files if extent.details else ():
        page.paragraph(Text(plain(file), "dim"))


def _left_out(page: Page, trace: TraceSummary) -> None:
    """Files and events that the answer does without."""
    if trace.left_out:
        text = f"{counted(trace.left_out, 'event')} of Python functions, to save memory; --python-functions keeps them"
        page.paragraph(Text(text, "yellow"), label="left out:")
    for file in trace.copies:
        page.paragraph(Text(f"{plain(file)}, a copy of another file", "dim"), label="left out:")
    for file in trace.skipped:
        page.paragraph(Text(f"{plain(file)}, which is no file", "yellow"), label="left out:")
