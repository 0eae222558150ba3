"""The result of a series in the lines that its reports begin with."""

from collections.abc import Sequence

from diagnose.commands.series.answer import Periodic, RemedyOption, SeriesReport, Spread, Stall
from diagnose.commands.series.stall_findings import spoken_times
from diagnose.commands.series.suggested_capture import if_slow
from diagnose.facts import duration
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.gains import speedup
from diagnose.report.views.one_unit import of_times
from diagnose.report.views.plain import plain

GROWN = 1.5  # the last of a few samples over the first
_LISTED = 24


def head(report: SeriesReport) -> list[ScreenLine]:
    """The result, what it costs, how far the step times lie from each other, and what to do."""
    return [
        ScreenLine("result", plain(result(report)), warns=bool(report.changes or report.stalls)),
        ScreenLine("cost", plain(_cost(report))),
        ScreenLine("spread", plain(_spread(report.spread)) if report.spread else ""),
        ScreenLine("next", plain(_next(report)), is_code=report.not_told is None),
    ]


def result(report: SeriesReport) -> str:
    """The changes and stalls, the largest of them named; else whether a step stands far above the others."""
    if report.not_told is not None:
        return _too_few(report) or f"unknown, because {report.not_told.because}"
    parts = [*_changes(report), *_stalls(report.stalls), *_long(report)]
    if parts:
        return "; ".join(parts)
    of = report.spread
    if of is None or not of.slow:
        return "steady: the step time only fluctuates"
    slow = "one slow step" if of.slow == 1 else f"{of.slow:,} slow steps, the longest"
    return f"{slow}: {_longest(of)}; else steady"


def _too_few(report: SeriesReport) -> str:
    """How a few samples grow; "" if there are none."""
    if not report.listed:
        return ""
    first, last, count = report.listed[0][1], report.listed[-1][1], len(report.listed)
    ends = f"{_time(first)} -> {_time(last)} in {count} step{'s' * (count > 1)}"
    how = "slower" if last >= GROWN * first else "faster" if first >= GROWN * last else "no clear trend"
    return f"{how}: {ends}, which are too few to tell a change from noise"


def _changes(report: SeriesReport) -> list[str]:
    if not report.changes:
        return []
    most = max(report.changes, key=lambda change: abs(change.lost_s))
    more = len(report.changes) - 1
    return [most.says if not more else f"{most.says} ({more} more change{'s' * (more > 1)})"]


def _stalls(stalls: Sequence[Stall]) -> list[str]:
    if not stalls:
        return []
    most, count = max(stalls, key=lambda one: one.cost_s), sum(one.count for one in stalls)
    runs = len({one.run for one in stalls})
    where = f" in {runs} runs" if runs > 1 else ""
    if most.count > 1 and most.recurs is not None:
        return [f"{count} stalls{where}, most of them every {most.recurs.every_steps:,} steps"]
    took = f"step {most.step:,} took {_time(most.time_s)}, {_time(most.cost_s)} more than the steps around"
    return [f"one stall: {took}" if count == 1 else f"{count} stalls{where}; the longest: {took}"]


def _long(report: SeriesReport) -> list[str]:
    """The long steps that no stall holds; the longest is named where nothing else is."""
    count = len(report.longest)
    if not count:
        return []
    most = max(report.longest, key=lambda one: one.time_s)
    where = "" if most.told_from_noise else ", not told from noise"
    if report.changes or report.stalls:
        return [f"{count} more long step{'s' * (count > 1)}{where}"]
    took = f"step {most.step:,} took {_time(most.time_s)}, {_time(most.cost_s)} more than the steps around"
    return [f"one long step{where}: {took}" if count == 1 else f"{count} long steps{where}; the longest: {took}"]


def bought(option: RemedyOption) -> str:
    """The change with its gain over the run, and what it costs or depends on."""
    return plain(f"{option.do}: {speedup(option.gain)}; {option.but}")


def periods_of_no_stall(report: SeriesReport) -> list[Periodic]:
    """The periods that no stall has: the same thing is said once."""
    told = {(one.run, one.recurs.every_steps) for one in report.stalls if one.recurs is not None}
    return [one for one in report.periodic if (one.run, one.every_steps) not in told]


def _longest(of: Spread) -> str:
    where = f" of {of.longest_run}" if of.longest_run else ""
    times = spoken_times(of.longest_s / of.median_s)
    return f"step {of.longest_step:,}{where} took {_time(of.longest_s)}, {times} the usual {_time(of.median_s)}"


def _cost(report: SeriesReport) -> str:
    """The time that stalls, else slow steps, take beyond the usual, and what is not there."""
    of, none = report.spread, [] if report.changes else ["no drift, no change point"]
    if of is None or report.not_told is not None:
        return ""
    if report.changes and not report.stalls:
        most = max(report.changes, key=lambda change: abs(change.lost_s))
        word = "lost" if most.lost_s > 0 else "saved"
        return f"{duration(abs(most.lost_s) * 1e9)} {word} on each rank until step {most.until_step:,}"
    if report.stalls:
        share = max((run.stalls_share for run in report.runs), default=0.0)
        hours = sum(one.gpu_hours for one in report.stalls if one.gpu_hours is not None)
        gpu = [f"{hours:.2g} GPU-hours"] if hours else []
        up_to = "up to " if len(report.runs) > 1 else ""
        return "; ".join([f"{up_to}{100 * share:.2g} % of the time of all steps of a run", *gpu, *none])
    extra = sum(one.cost_s for one in report.longest) or of.slow_extra_s
    if not extra:
        return ""
    took, whole = _time(extra), duration(of.whole_s * 1e9)
    return "; ".join([f"{took} of {whole} ({100 * extra / of.whole_s:.2g} %)", *none])


def _spread(of: Spread) -> str:
    unit = of_times([of.median_s * 1e9])
    middle, p99, most = (unit.of(value * 1e9) for value in (of.median_s, of.p99_s, of.longest_s))
    return f"median {middle}, p99 {p99}, longest {most} (step {of.longest_step:,})"


def _next(report: SeriesReport) -> str:
    if report.not_told is not None:
        return report.not_told.capture_next
    if report.remedies:
        return bought(report.remedies[0].options[0])
    if _comes_once(report) and report.kind != "windows":
        return if_slow(report.longest)
    return commands(report)[0] if report.look else ""


def _comes_once(report: SeriesReport) -> bool:
    """Whether all that is wrong are slow steps of which nobody knows when the next one comes."""
    slow = report.spread is not None and report.spread.slow > 0
    return not report.changes and slow and not any(one.recurs is not None for one in report.stalls)


def commands(report: SeriesReport) -> list[str]:
    """What to type for each suggestion."""
    return [one.command or f"diagnose analyze {', '.join(one.files)}" for one in report.look]


def listed(report: SeriesReport) -> str:
    """Each sample of a log that has few, in one unit; "" for others."""
    shown = report.listed[:_LISTED]
    if not shown:
        return ""
    unit = of_times(time * 1e9 for _, time in report.listed)
    more = f", and {len(report.listed) - len(shown)} more" if len(report.listed) > len(shown) else ""
    times = ", ".join(f"{time * 1e9 / unit.size:,.{unit.digits}f}" for _, time in shown)
    return f"{times} {unit.name} from step {shown[0][0]:,} to {shown[-1][0]:,}{more}"


def _time(seconds: float) -> str:
    return duration(seconds * 1e9)
