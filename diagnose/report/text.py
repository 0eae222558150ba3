"""The terminal report: verdict, ledger, ranks, what to change next, what would not help, what could not be judged."""

from collections.abc import Callable, Mapping

from rich.console import Console
from rich.text import Text

from diagnose.defects import netted
from diagnose.diagnosis import Diagnosis, TraceSummary, Verdict
from diagnose.facts import duration, spoken
from diagnose.judge.verdict import NAMES_THE_CLASS, NEAR
from diagnose.report.applied import applied_line, got_slower
from diagnose.report.changes import SEVERITY_STYLE, brief, first_change, nothing_pays, nothing_text, print_changes
from diagnose.report.job import print_job, print_job_verdict
from diagnose.report.kernels import print_kernels
from diagnose.report.ledger import STYLE, basis, print_ledger
from diagnose.report.page import LABEL, Page, joined, plain
from diagnose.report.roofline import print_roofline
from diagnose.report.words import counted, first_sentence, mfu_details, mfu_line, unused_option

_STEP_SOURCES = {
    "window": "the whole capture, no step marks were found",
    "pattern": "found by the repeating pattern of kernels",
}


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
    first = first_change(diagnosis)
    if first is None or nothing_pays(diagnosis):
        page.paragraph(nothing_text(diagnosis), label="next:")
        return
    page.paragraph(brief(first, basis(diagnosis).name), label="next:")


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


def why_between(verdict: Verdict) -> str:
    """What makes the call close."""
    near, names = f"{100 * NEAR:.3g} points", f"{100 * NAMES_THE_CLASS:.3g} %"
    if len({"memory-bound", "compute-bound"} & set(verdict.between)) == 1:
        return f"the waiting is within {near} of the {names} of the step from which it names the class"
    return f"they are within {near} of each other"


def steps_line(diagnosis: Diagnosis) -> str:
    """How many steps were counted, over how many ranks, and what marked them."""
    steps = diagnosis.steps
    source = plain(_STEP_SOURCES.get(steps.source, f"marked by {steps.source}"))
    ranks = len(diagnosis.ranks)
    over = "" if ranks <= 1 else f", 1 on each of {ranks} ranks" if steps.count == ranks else f" over {ranks} ranks"
    if diagnosis.rank is not None:
        over = f" of rank {diagnosis.rank} alone, one of {ranks}"
    host = ""
    if steps.device_time_ns is None:
        host = "; no GPU activity, so host steps are accounted"
    elif steps.count and abs(steps.time_ns - steps.device_time_ns) > 0.05 * steps.device_time_ns:
        host = f"; on the host a step takes {duration(steps.time_ns / steps.count)}"
    return f"{steps.count:,} counted{over}, {source}{host}"


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
            says = first_sentence(finding.says)
            page.paragraph(joined([Text(plain(finding.rule), "bold"), severity, says]), label="note:", most=2)


def loss_line(trace: TraceSummary) -> str:
    """What of the files could not be read, "" when nothing was lost."""
    loss = trace.loss
    if not (loss.events or loss.bytes or loss.truncated or loss.kinds):
        return ""
    parts = [
        counted(loss.events, "event") if loss.events else "",
        f"{spoken(loss.bytes, 'bytes')} of {spoken(trace.bytes, 'bytes')}" if loss.bytes else "",
        "the file ends early" if loss.truncated else "",
    ]
    kinds = f" ({', '.join(plain(kind) for kind in loss.kinds)})" if loss.kinds else ""
    return ("; ".join(part for part in parts if part) or "values that cannot be") + kinds


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
