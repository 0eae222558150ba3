"""The machine's part of a report: over the run, at each change and at each stall."""

from collections.abc import Sequence

from msgspec.structs import replace

from diagnose.commands.series.answer import SeriesReport, Stall
from diagnose.commands.series.machine_moves import machine_at_change, machine_at_stall
from diagnose.commands.series.machine_over_run import machine_over_run
from diagnose.series.change import Change
from diagnose.series.machine.readings import MachineReadings


def with_machine(report: SeriesReport, machines: Sequence[MachineReadings] | None) -> SeriesReport:
    """The report with the readings of `machines`; unchanged if the source could hold none."""
    if machines is None:
        return report
    return replace(
        report,
        machine=machine_over_run(machines),
        changes=tuple(_at_change(change, machines) for change in report.changes),
        stalls=tuple(_at_stall(stall, machines) for stall in report.stalls),
    )


def _at_change(change: Change, machines: Sequence[MachineReadings]) -> Change:
    """The change with readings of the ranks that are waited for, or if unknown of those that have the change."""
    ranks = change.culprit_ranks or change.ranks
    asked = [machine for machine in machines if machine.rank in ranks] or machines
    first, last = change.since_step, change.until_step
    before = (float(change.before_from_step), float(change.since_between[0] - 1))
    after = (float(change.since_between[1]), float(last))
    if change.kind == "drift":
        third = (last - first) / 3
        before, after = (float(first), first + third), (last - third, float(last))
    return replace(change, machine=machine_at_change(asked, before, after, change.change_share > 0))


def _at_stall(stall: Stall, machines: Sequence[MachineReadings]) -> Stall:
    """The stall with readings of the machine; unchanged if it stands for several that keep a period."""
    if stall.count > 1:
        return stall
    asked = [machine for machine in machines if machine.rank in stall.ranks] or machines
    return replace(stall, machine=machine_at_stall(asked, stall.step, stall.last_step, stall.time_s))
