"""The terminal report of an armed run: its step times, then its windows."""

from rich.console import Console
from rich.text import Text

from diagnose.commands.armed.answer import ArmedRun, ArmedWindow, LongStep
from diagnose.commands.series.machine_text import print_machine
from diagnose.commands.series.text import render as render_series
from diagnose.facts import spoken
from diagnose.report.text.page import Page
from diagnose.report.views.applied import applied_line, got_slower
from diagnose.report.views.brief import brief
from diagnose.report.views.goodput import goodput_words
from diagnose.report.views.plain import plain
from diagnose.report.views.slow_steps import slow_steps_view
from diagnose.series.grown import told_container

_MOST_RANKS = 8
_MOST_LONG = 5


def render(run: ArmedRun, console: Console, shown: str) -> None:
    """Print `run`, whose folder is called `shown`. Nothing is measured or judged here."""
    render_series(run.series, console)
    page = Page(console)
    page.gap()
    if run.goodput is not None:
        page.paragraph(f"{goodput_words(run.goodput)} the process ran", label="goodput")
    for i, use in enumerate(run.memory):
        most = f"{spoken(use.first_bytes, 'bytes')} -> {spoken(use.last_bytes, 'bytes')}"
        page.paragraph(
            f"{use.what}: {most}, {spoken(use.most_bytes, 'bytes')} at most (rank {use.rank})",
            label="" if i else "memory",
        )
    _print_growth(page, run)
    print_machine(page, run.series.machine)
    if line := applied_line(run.applied):
        page.paragraph(Text(line, "bold yellow" if got_slower(run.applied) else "bold"), label="applied")
    if run.unended:
        says = f"the log of {_ranks(run.unended)} does not end: the job runs on, or the process was killed"
        page.paragraph(Text(says, "yellow"), label="ended")
    for i, step in enumerate(run.long_steps[:_MOST_LONG]):
        page.paragraph(told_long(step), label="" if i else "long steps", most=2)
    if not run.windows:
        page.paragraph("none was opened", label="windows")
    for window in run.windows:
        _print_window(page, window, shown)


def _print_growth(page: Page, run: ArmedRun) -> None:
    """Print what grows with the steps, where it is held, and what to do; why that is unknown, if it is."""
    if run.growth.not_told is not None:
        page.paragraph(f"unknown, because {run.growth.not_told.because}", label="growth")
        page.field("do", run.growth.not_told.capture_next)
    for grown in run.growth.grown:
        page.paragraph(Text(plain(grown.says), "bold yellow"), label="growth")
        if grown.held_in is not None:
            page.field("held in", plain(told_container(grown.held_in)))
        page.field("do", grown.do)


def _print_window(page: Page, window: ArmedWindow, shown: str) -> None:
    page.paragraph(Text(plain(f"step {window.first_step:,}: {window.why}"), "bold"), label="window")
    if window.missed_by and window.ranks:
        page.field("without", f"{_ranks(window.missed_by)}, which read of it too late")
    if window.not_told is not None:
        page.field("unknown", plain(window.not_told.because))
        page.field("do", window.not_told.capture_next)
        return
    assert window.diagnosis is not None
    for line in _slow(window):
        page.field("slow", line)
    page.field("verdict", brief(window.diagnosis))
    page.field("do", plain(f"diagnose analyze {shown}/{window.folder}"))


def _slow(window: ArmedWindow) -> list[str]:
    """Lines on what grew in the slow steps of the window; the step its rank found slow if the trace counts none."""
    assert window.diagnosis is not None
    steps = zip(window.diagnosis.slow_steps, slow_steps_view(window.diagnosis) or (), strict=False)
    lines = [plain(view.line) for step, view in steps if step.recorded]
    if lines or window.slow_step is None:
        return lines
    return [f"step {window.slow_step:,} was slow; the counted steps do not tell what grew in it"]


def told_long(step: LongStep) -> str:
    """A long step in a sentence: where the job was while it ran."""
    calls = f", calling {step.calls}" if step.calls else ""
    at = step.at or f"outside your own code ({step.doing})"
    return plain(f"step {step.step:,} of rank {step.rank}, {step.after_s:.1f} s after it began: {at}{calls}")


def _ranks(ranks: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, ranks[:_MOST_RANKS])) + (", ..." if len(ranks) > _MOST_RANKS else "")
    return f"rank{'s' * (len(ranks) > 1)} {listed}"
