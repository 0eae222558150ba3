"""The terminal report of `diagnose series`: the run at a glance, its changes, and which steps to look at."""

from rich.console import Console
from rich.text import Text

from diagnose.commands.series.answer import SeriesReport, SuggestedCapture
from diagnose.commands.series.machine_text import print_beside, print_gpu_changes
from diagnose.commands.series.stalls_text import print_goodput, print_stalls
from diagnose.facts import duration
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain
from diagnose.series.change import Change

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-=*#"
_PARTS = {"compute": "compute", "wait": "waiting", "data": "data"}


def render(report: SeriesReport, console: Console) -> None:
    """Print `report`. Nothing is measured or judged here."""
    page = Page(console)
    page.paragraph(verdict(report), label="steps:")
    page.paragraph(Text(plain(_source(report)), "dim"), label="read:", most=4)
    if report.shape:
        page.paragraph(_sparkline(report, page.ascii_only), label="")
    print_goodput(page, report)
    page.gap()
    print_stalls(page, report)
    for change in report.changes:
        _print_change(page, change)
    print_gpu_changes(page, report.machine)
    for i, beat in enumerate(report.periodic):
        of_run = f"{plain(beat.run)}: " if beat.run else ""
        page.paragraph(of_run + beat.says, label="" if i else "periodic:")
    if report.not_told is not None:
        page.paragraph(Text(plain(report.not_told.because)), label="unknown:")
        page.field("do", plain(report.not_told.capture_next))
    for i, suggested in enumerate(report.look):
        _print_suggested(page, suggested, label="" if i else "look at:")
    for i, note in enumerate(report.notes):
        page.paragraph(Text(plain(note), "dim"), label="" if i else "notes:")


def verdict(report: SeriesReport) -> Text:
    """The result in a line."""
    if report.not_told is not None:
        return Text("unknown", "bold yellow")
    lines = [f"{count} {what}" for count, what in _counted(report) if count]
    if lines:
        return Text(" and ".join(lines), "bold red")
    return Text("no change: the step time only fluctuates", "bold green")


def _counted(report: SeriesReport) -> list[tuple[int, str]]:
    share = max((run.stalls_share for run in report.runs), default=0.0)
    of = f"{100 * share:.2g} % of the time of all steps"
    stalls = sum(one.count for one in report.stalls)
    runs = len({one.run for one in report.stalls})
    words = f"stall{'s' * (stalls > 1)} in {runs} of {len(report.runs)} runs, up to {of}"
    if len(report.runs) < 2:
        words = f"stall{'s' * (stalls > 1)} that cost{'s' * (stalls == 1)} {of}"
    return [(len(report.changes), f"change{'s' * (len(report.changes) > 1)} of the step time"), (stalls, words)]


def _source(report: SeriesReport) -> str:
    if not report.samples:
        return ", ".join(report.files[:2])
    tracks = f" of {report.tracks} ranks" if len(report.ranks) > 1 else ""
    if len(report.runs) > 1:
        tracks = f" of {len(report.runs)} runs"
    hosts = f" on {len(report.hosts)} hosts" if len(report.hosts) > 1 else ""
    steps = f"steps {report.first_step:,} to {report.last_step:,}, {report.samples:,} samples{tracks}{hosts}"
    middle = f", median {duration(report.median_s * 1e9)} per step" if report.median_s else ""
    return f"{steps}{middle} ({report.unit})"


def _sparkline(report: SeriesReport, ascii_only: bool) -> Text:
    marks = _ASCII if ascii_only else _BLOCKS
    low, high = min(report.shape), max(report.shape)
    room = max(high - low, 0.1 * low, 1e-12)  # a tenth of the step fills the height at least: noise stays flat
    drawn = "".join(marks[min(int((value - low) / room * len(marks)), len(marks) - 1)] for value in report.shape)
    return Text.assemble((drawn, "cyan"), (f"  {duration(low * 1e9)} to {duration(high * 1e9)}", "dim"))


def _print_change(page: Page, change: Change) -> None:
    style = "bold red" if change.change_share > 0 else "bold green"
    page.paragraph(Text(plain(change.says), style), label="change:")
    if change.run:
        page.field("run", plain(change.run))
    of = f"of the median of steps {change.before_from_step:,} to {change.since_step - 1:,}"
    if change.kind == "drift":
        of = "of its time where it begins, by a straight line through the stretch"
    low, high = change.since_between
    placed = f"; it began between step {low:,} and {high:,}" if change.kind == "level" and low < high else ""
    page.field("size", f"{100 * change.change_share:+.1f} % {of}{placed}")
    lasts = f"until step {change.until_step:,}: "
    page.field("cost", f"{lasts}{'+' if change.lost_s > 0 else '-'}{duration(abs(change.lost_s) * 1e9)} on each rank")
    for part in change.parts:  # of the rank that is waited for, if one is named
        page.field("of which", f"{_PARTS[part.part]} {duration(part.before_s * 1e9)} -> {duration(part.after_s * 1e9)}")
    if change.named_by:
        page.field("who", f"told by the logged {_PARTS[change.named_by]} time of each rank")
    elif change.scope == "unknown":
        page.field("who", "unknown: the log does not tell ranks apart")
    print_beside(page, change.machine)
    if change.at_restart:
        page.field("with", "a restart of the job at that step")
    page.field("sure", f"confidence {change.confidence}, p {_chance(change.p_value)} for noise alone")
    page.gap()


def _chance(p: float) -> str:
    return "below 1e-12" if p < 1e-12 else f"= {p:.1g}"


def _print_suggested(page: Page, suggested: SuggestedCapture, label: str) -> None:
    page.paragraph(Text(f"steps {suggested.first_step:,} to {suggested.last_step:,}: {suggested.why}"), label=label)
    command = suggested.command or "diagnose analyze " + ", ".join(suggested.files)
    page.field("do", plain(command))
