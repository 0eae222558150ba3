"""The terminal report: verdict, ledger, ranks, what to change next, what would not help, what could not be judged."""

from collections.abc import Callable, Mapping

from rich.console import Console
from rich.text import Text

from diagnose.defects import netted
from diagnose.diagnosis import Diagnosis, TraceSummary
from diagnose.facts import duration, spoken
from diagnose.report.text.changes import SEVERITY_STYLE, print_changes, print_next
from diagnose.report.text.job import print_job, print_job_verdict
from diagnose.report.text.kernels import print_kernels
from diagnose.report.text.ledger import STYLE, print_ledger
from diagnose.report.text.page import LABEL, Page, joined
from diagnose.report.text.roofline import print_roofline
from diagnose.report.views.applied import applied_line, got_slower
from diagnose.report.views.ledger import basis
from diagnose.report.views.plain import plain
from diagnose.report.views.summary import loss_line, steps_line, why_between
from diagnose.report.views.words import counted, first_sentence, mfu_details, mfu_line, of_step, unused_option


def render(diagnosis: Diagnosis, console: Console, *, details: bool = False, kernels: int = 0) -> None:
    """Print `diagnosis`: one screen, or with `details` everything; `kernels` is how many of the longest to list."""
    page = Page(console)
    sections: Mapping[str, Callable[[], None]] = {
        "the verdict": lambda: _verdict(page, diagnosis, details),
        "the steps": lambda: page.paragraph(steps_line(diagnosis), label="steps:"),
        "what was applied": lambda: _applied(page, diagnosis),
        "the notes": lambda: _notes(page, diagnosis),
        "the history": lambda: _history(page, diagnosis),
        "the job's verdict": lambda: print_job_verdict(page, diagnosis, details),
        "": page.gap,
        "the ledger": lambda: print_ledger(page, diagnosis, details),
        "the roofline": lambda: print_roofline(page, diagnosis) if details else None,
        "the kernels": lambda: print_kernels(page, diagnosis, kernels) if kernels else None,
        "the job": lambda: print_job(page, diagnosis, details),
        "the changes": lambda: print_changes(page, diagnosis, details),
        "what was lost": lambda: _lost(page, diagnosis.trace),
        "what is left out": lambda: _absent(page, diagnosis),
        "what was read": lambda: _read(page, diagnosis.trace, details),
    }
    for name, section in sections.items():
        netted(name, section, page.paragraph)


def render_brief(diagnosis: Diagnosis, console: Console) -> None:
    """Print the verdict and the next change only."""
    page = Page(console)
    page.paragraph(_verdict_line(diagnosis), label="verdict:")
    _applied(page, diagnosis)
    print_next(page, diagnosis)


def _history(page: Page, diagnosis: Diagnosis) -> None:
    for i, change in enumerate(diagnosis.history):
        page.paragraph(Text(plain(change.says), "yellow"), label="" if i else "history:", most=2)


def _lost(page: Page, trace: TraceSummary) -> None:
    if loss_line(trace):
        page.paragraph(Text(loss_line(trace), "yellow"), label="lost:")


def _verdict_line(diagnosis: Diagnosis) -> Text:
    verdict, mfu, of = diagnosis.verdict, diagnosis.mfu, basis(diagnosis)
    style = STYLE.get(verdict.class_.removesuffix("-bound"), "red")
    speed = f"{duration(of.step_ns)} per {of.name.removeprefix('device ')}"
    small = "below 0.1 %" if mfu.value is not None and mfu.value < 0.0005 else ""
    known = "MFU unknown" if mfu.value is None else f"MFU {small or spoken(mfu.value, 'share')}"
    return joined([Text(verdict.class_, f"bold {style}"), speed, known, f"confidence {verdict.confidence}"])


def _verdict(page: Page, diagnosis: Diagnosis, details: bool) -> None:
    verdict = diagnosis.verdict
    page.paragraph(_verdict_line(diagnosis), label="verdict:")
    if len(verdict.between) > 1:
        page.paragraph(f"between {' and '.join(verdict.between)}: {why_between(verdict)}")
    because = Text(plain(verdict.because))
    mfu = Text(mfu_line(diagnosis.mfu, details), "dim" if diagnosis.mfu.value is not None else "")
    together = joined([because, mfu])
    for text in [together] if together.cell_len <= page.width - LABEL else [because, mfu]:
        page.paragraph(text)
    if unused_option(diagnosis.mfu):
        page.paragraph(Text(unused_option(diagnosis.mfu), "yellow"))
    for line in mfu_details(diagnosis.mfu) if details else ():
        page.paragraph(Text(line, "dim"))


def _applied(page: Page, diagnosis: Diagnosis) -> None:
    """What the patch bought that the run was started with."""
    line = applied_line(diagnosis.applied)
    if line:
        page.paragraph(Text(line, "bold yellow" if got_slower(diagnosis.applied) else "bold"), label="applied:")


def _notes(page: Page, diagnosis: Diagnosis) -> None:
    """What makes the numbers less certain, a line each."""
    for finding in diagnosis.findings:
        if finding.class_ == "validity":
            severity = Text(finding.severity, SEVERITY_STYLE[finding.severity])
            says = of_step(first_sentence(finding.says), basis(diagnosis).name)
            page.paragraph(joined([Text(plain(finding.rule), "bold"), severity, says]), label="note:", most=2)


def _absent(page: Page, diagnosis: Diagnosis) -> None:
    """Files and events that the answer does without."""
    trace = diagnosis.trace
    if trace.left_out:
        text = f"{counted(trace.left_out, 'event')} of Python functions, to save memory; --python-functions keeps them"
        page.paragraph(Text(text, "yellow"), label="left out:")
    for file in trace.copies:
        page.paragraph(Text(f"{plain(file)}, a copy of another file", "dim"), label="left out:")
    for file in trace.skipped:
        page.paragraph(Text(f"{plain(file)}, which is no file", "yellow"), label="left out:")


def _read(page: Page, trace: TraceSummary, details: bool) -> None:
    size = f"{counted(len(trace.files), 'file')}, {counted(trace.events, 'event')}, {spoken(trace.bytes, 'bytes')}"
    more = "diagnose explain RULE tells more about a rule" if details else "--details shows the rest"
    page.paragraph(Text(f"{size}; {more}", "dim"), label="read:")
    for file in trace.files if details else ():
        page.paragraph(Text(plain(file), "dim"))
