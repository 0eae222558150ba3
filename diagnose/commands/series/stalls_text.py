"""The stalls of a series and the parts of its wall time, as lines of the terminal report."""

from collections.abc import Sequence

from rich.text import Text

from diagnose.commands.series.answer import SeriesReport, Stall
from diagnose.commands.series.machine_text import print_beside
from diagnose.commands.series.suggested_capture import if_slow
from diagnose.commands.series.views import bought
from diagnose.diagnosis import Goodput
from diagnose.facts import duration
from diagnose.report.text.page import Page
from diagnose.report.views.goodput import goodput_words
from diagnose.report.views.plain import plain
from diagnose.series.stalls import LEAST_SHARE

_MOST = 8
_MOST_STEPS = 12  # of a group, that are listed


def print_stalls(page: Page, report: SeriesReport) -> None:
    """The stalls, those at the same step of several runs as one, and those of one period, the dearest first."""
    groups = _groups(report.stalls)
    dearest = sorted(groups, key=lambda group: -sum(one.cost_s for one in group))[:_MOST]
    for group in sorted(dearest, key=lambda group: group[0].step):
        _print(page, report, group)
    if len(groups) > _MOST:
        page.paragraph(Text(f"and {len(groups) - _MOST} more that cost less: --json has all", "dim"), label="")
        page.gap()


def print_longest(page: Page, report: SeriesReport) -> None:
    """The long steps that no stall holds, the longest first, and what finds out about them."""
    dearest = sorted(report.longest, key=lambda one: -one.time_s)
    for i, one in enumerate(dearest[:_MOST]):
        page.paragraph(Text(plain(f"{one.run}: {one.says}" if one.run else one.says)), label="" if i else "long")
        _print_near(page, one)
    if dearest[_MOST:]:
        page.paragraph(Text(f"and {len(dearest) - _MOST} more, at {_steps(dearest[_MOST:])}", "dim"), label="")
    if dearest:
        page.paragraph(_why_no_stall(dearest, report))
        if unexplained := [one for one in dearest if not one.known_as]:
            page.field("do", if_slow(unexplained))
        page.gap()


def print_remedies(page: Page, report: SeriesReport) -> None:
    """Print the changes that shorten the stalls that the log explains, each with its gain over the run."""
    for remedy in report.remedies:
        page.paragraph(remedy.says, label="remedy")
        for i, option in enumerate(remedy.options):
            page.field("or" if i else "do", bought(option))
        page.gap()


def _why_no_stall(longest: Sequence[Stall], report: SeriesReport) -> str:
    uncertain = [one for one in longest if not one.told_from_noise]
    of = report.spread
    if not uncertain or of is None:
        return f"explained by the log, or less than {100 * LEAST_SHARE:g} % of the run"
    which = "" if len(uncertain) == len(longest) else f"{len(uncertain):,} of them are "
    return f"{which}not told from noise: {100 * of.slow / of.samples:.2g} % of the steps take twice the usual or more"


def print_goodput(page: Page, report: SeriesReport) -> None:
    """The parts of the wall time, or why they are not known."""
    if report.goodput is not None:
        page.paragraph(Text(goodput_line(report.goodput)), label="goodput")
    elif report.goodput_not_told is not None:
        page.paragraph(Text(plain(report.goodput_not_told.because), "dim"), label="goodput")


def goodput_line(goodput: Goodput) -> str:
    """The parts of the wall time in a line."""
    return f"{goodput_words(goodput)} from the first logged step to the last"


def _groups(stalls: Sequence[Stall]) -> list[list[Stall]]:
    groups: dict[object, list[Stall]] = {}
    for one in stalls:
        groups.setdefault(_group_of(one), []).append(one)
    return list(groups.values())


def _group_of(stall: Stall) -> object:
    """The key that a stall shares with its group: the step in several runs, the period in one, or its own step."""
    recurs = stall.recurs
    if recurs is not None and recurs.runs > 1:
        return stall.job, stall.step, stall.count > 1
    if recurs is not None and recurs.every_steps:
        return stall.run, "every", recurs.every_steps, recurs.times
    return stall.run, stall.step, stall.count > 1


def _print(page: Page, report: SeriesReport, group: Sequence[Stall]) -> None:
    first = max(group, key=lambda one: one.cost_s)
    says = f"step {first.step:,}" if len(report.stalls) == 1 and first.count == 1 else first.says
    page.paragraph(Text(plain(says), "bold red"), label="stall")
    low, high = (duration(end(one.cost_s for one in group) * 1e9) for end in (min, max))
    of_one_run = len({one.run for one in group}) == 1
    if len(group) > 1 and of_one_run:
        page.field("at", f"{_steps(group)}: {low} to {high} each")
    elif len(group) > 1:
        of = f" of {first.job}" if first.job else ""
        page.field(
            "runs",
            plain(f"{len(group)} of the {first.recurs.of_runs if first.recurs else 0} runs{of}: {low} to {high} each"),
        )
    if first.run and of_one_run:
        page.field("run", plain(first.run))
    hours = sum(one.gpu_hours for one in group if one.gpu_hours is not None)
    if hours:
        gpus = next((run.gpus for run in report.runs if run.name == first.run), None)
        page.field("cost", f"{hours:.2g} GPU-hours ({gpus:,} GPUs)" if gpus else f"{hours:.2g} GPU-hours")
    page.field("recurs", _recurs(first))
    _print_near(page, first)
    if len(group) == 1:
        print_beside(page, first.machine)
    page.gap()


def _print_near(page: Page, stall: Stall) -> None:
    for near in stall.near:
        page.field("near", plain(near.text if near.kind == "log" else f"{near.kind}: {near.text}"))


def _steps(group: Sequence[Stall]) -> str:
    steps = sorted(one.step for one in group)
    more = f" and {len(steps) - _MOST_STEPS} more" if len(steps) > _MOST_STEPS else ""
    return f"steps {', '.join(f'{step:,}' for step in steps[:_MOST_STEPS])}{more}"


def _recurs(stall: Stall) -> str:
    recurs = stall.recurs
    if recurs is None:
        return "no, as far as this log shows"
    told = []
    if recurs.every_steps:
        samples = (
            f" ({recurs.every_steps:,} as the log counts)" if recurs.every_optimizer_steps != recurs.every_steps else ""
        )
        told.append(f"every {recurs.every_optimizer_steps:,} steps{samples}, {recurs.times} times")
    if recurs.runs > 1:
        told.append(f"at the same step in {recurs.runs} of {recurs.of_runs} runs")
    return ", ".join(told)
