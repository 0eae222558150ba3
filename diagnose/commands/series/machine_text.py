"""The machine over an armed run, at a change or a stall, as lines of the terminal report."""

from rich.text import Text

from diagnose.facts import spoken
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain
from diagnose.series.machine.findings import MachineBeside, MachineReport

MOST_CHANGES = 8


def print_machine(page: Page, report: MachineReport | None) -> None:
    """Print the readings over the run, or why there are none."""
    if report is None:
        return
    lines = [Text(plain(one.says)) for one in report.quantities if one.typical or one.worst]
    for held in report.held_down or ():
        readings = f"in {spoken(held.share, 'share')} of the readings of rank {held.rank}"
        lines.append(Text(plain(f"held down by {held.by}: {readings}")))
    never = [one.what for one in report.quantities if not (one.typical or one.worst)]
    lines += [Text(plain(f"none at any time: {', '.join(never)}"))] if never else []
    if report.gpu_changes == ():
        lines.append(Text(plain(f"no worse than at the begin: {', '.join(report.gpu_compared)}")))
    lines += [Text(plain(f"unknown {one.because}"), "dim") for one in report.not_told]
    for i, line in enumerate(lines):
        page.paragraph(line, label="" if i else "machine")


def print_gpu_changes(page: Page, report: MachineReport | None) -> None:
    """Print what changed for the worse on the GPUs during the run."""
    changes = (report.gpu_changes or ()) if report is not None else ()
    for i, change in enumerate(changes[:MOST_CHANGES]):
        page.paragraph(Text(plain(change.says), "bold yellow"), label="" if i else "gpu")
    if len(changes) > MOST_CHANGES:
        page.paragraph(Text(f"+{len(changes) - MOST_CHANGES} more: --json", "dim"))


def print_beside(page: Page, beside: MachineBeside | None) -> None:
    """Print what changed on the machine at the same time, as fields of a finding."""
    if beside is None:
        return
    for move in beside.moved:
        page.field("machine", Text(plain(move.says), "bold"))
    if beside.not_told is not None:
        page.field("machine", Text(f"unknown: {plain(beside.not_told.because)}", "dim"))
    elif not beside.moved:
        page.field("machine", "nothing that was read of it changed with the step time")
