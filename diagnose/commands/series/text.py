"""The terminal report of `diagnose series`: the run at a glance, its changes, and which steps to look at."""

from rich.console import Console
from rich.text import Text

from diagnose.commands.series.answer import SeriesReport, SuggestedCapture
from diagnose.commands.series.machine_text import print_beside, print_gpu_changes
from diagnose.commands.series.stalls_text import print_goodput, print_longest, print_remedies, print_stalls
from diagnose.commands.series.views import commands, head, listed, periods_of_no_stall
from diagnose.facts import duration
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain
from diagnose.series.change import Change

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-=*#"
_PARTS = {"compute": "compute", "wait": "waiting", "data": "data"}


def render(report: SeriesReport, console: Console) -> None:
    """Print `report`. Nothing is measured or judged here."""
    lines = head(report)
    print_head(console, lines, _style(report))
    page = Page(console)
    page.paragraph(Text(plain(_source(report)), "dim"), label="read", most=4)
    if report.shape:
        page.paragraph(sparkline(report, page.ascii_only), label="")
    if each := listed(report):
        page.paragraph(each, label="samples")
    for i, told in enumerate(report.rank_times):
        page.paragraph(Text(plain(told.says), "bold red" if told.late else ""), label="" if i else "ranks")
    print_goodput(page, report)
    page.gap()
    print_stalls(page, report)
    print_longest(page, report)
    print_remedies(page, report)
    for change in report.changes:
        _print_change(page, change, several=len(report.changes) > 1)
    print_gpu_changes(page, report.machine)
    for i, beat in enumerate(periods_of_no_stall(report)):
        of_run = f"{plain(beat.run)}: " if beat.run else ""
        page.paragraph(of_run + beat.says, label="" if i else "periodic")
    first = next(line.text for line in lines if line.label == "next")
    for i, (suggested, command) in enumerate(zip(report.look, commands(report), strict=True)):
        _print_suggested(page, suggested, "" if command == first else command, label="" if i else "look at")
    for i, note in enumerate(report.notes):
        page.paragraph(Text(plain(note), "dim"), label="" if i else "notes")


def _style(report: SeriesReport) -> str:
    if report.not_told is not None:
        return "bold yellow"
    return "bold red" if report.changes or report.stalls else "bold green"


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


def sparkline(report: SeriesReport, ascii_only: bool) -> Text:
    """The step time over the run, of a report with a `shape`, and between which times it lies."""
    marks = _ASCII if ascii_only else _BLOCKS
    of = report.spread
    low, high = (of.shortest_s, of.longest_s) if of is not None else (min(report.shape), max(report.shape))
    room = max(high - low, 0.1 * low, 1e-12)  # a tenth of the step fills the height at least: noise stays flat
    drawn = "".join(marks[min(int((value - low) / room * len(marks)), len(marks) - 1)] for value in report.shape)
    return Text.assemble((drawn, "cyan"), (f"  {duration(low * 1e9)} to {duration(high * 1e9)}", "dim"))


def _print_change(page: Page, change: Change, several: bool) -> None:
    style = "bold red" if change.change_share > 0 else "bold green"
    says = change.says if several else f"at step {change.since_step:,}"
    page.paragraph(Text(plain(says), style), label="change")
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
        page.field("who", f"known from the logged {_PARTS[change.named_by]} time of each rank")
    elif change.scope == "unknown":
        page.field("who", "unknown, because the log does not name ranks")
    print_beside(page, change.machine)
    if change.at_restart:
        page.field("with", "a restart of the job at that step")
    page.field("sure", f"confidence {change.confidence}, p {_chance(change.p_value)} for noise alone")
    page.gap()


def _chance(p: float) -> str:
    return "below 1e-12" if p < 1e-12 else f"= {p:.1g}"


def _print_suggested(page: Page, suggested: SuggestedCapture, command: str, label: str) -> None:
    page.paragraph(Text(f"steps {suggested.first_step:,} to {suggested.last_step:,}: {suggested.why}"), label=label)
    if command:
        page.field("do", plain(command))
