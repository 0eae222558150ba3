"""Many jobs in words and rows that every form of their report shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from diagnose.commands.fleet.answer import Fleet, FleetCause, FleetChange, FleetGroup, FleetHost, FleetJob, FleetTrend
from diagnose.diagnosis.estimates import number
from diagnose.diagnosis.terms import Speedup
from diagnose.facts import spoken
from diagnose.formulas import share
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.plain import plain
from diagnose.report.views.words import cause_name, counted

LEAST_SHARE = 0.0005  # less rounds to 0.0 %
HEADINGS: dict[Literal["label", "gpu", "host"], str] = {"label": "By label", "gpu": "By GPU", "host": "By host"}
_UNNAMED = {"label": "no label", "gpu": "unknown device", "host": "unknown host"}
ANSWERS = {"yes": "repeat offender", "no": "within chance", "unknown": "unknown"}
_UNITS = {"run": "GPU-hours", "day": "GPU-hours a day"}


def head(fleet: Fleet) -> list[ScreenLine]:
    """The loss, its largest cause, its price, and the change that returns most."""
    causes, change = cause_rows(fleet), fleet.changes[0] if fleet.changes else None
    most = causes[0] if causes else None
    return [
        ScreenLine("verdict", headline(fleet), warns=True),
        ScreenLine(
            "why",
            f"most is lost to {most.name}: {most.amount} {unit(fleet)} ({100 * most.share:.1f} %)" if most else "",
        ),
        ScreenLine("cost", money_line(fleet)),
        ScreenLine("next", f"{change_name(change)}: returns {change_amount(change)} {unit(fleet)}" if change else ""),
    ]


def unit(fleet: Fleet) -> str:
    """The unit of the amounts."""
    return _UNITS[fleet.basis]


def headline(fleet: Fleet) -> str:
    """Number of jobs, their GPU-hours, and the share that is lost."""
    if not fleet.counted:
        return f"{counted(len(fleet.jobs), 'job')}, none of which has known GPU-hours"
    if not fleet.gpu_hours:
        return f"{counted(fleet.counted, 'job')} of 0 GPU-hours"
    share = spoken(fleet.lost_gpu_hours / fleet.gpu_hours, "share")
    least = "at least " if unknown_line(fleet) else ""
    hours = f"{number(fleet.lost_gpu_hours)} of {number(fleet.gpu_hours)} {unit(fleet)}"
    return f"{least}{hours} are lost ({share}): no kernel computes then"


def unknown_line(fleet: Fleet) -> str:
    """Line on GPU-hours that captures do not attribute, which may be lost, too; "" if they round to nothing."""
    unknown = share(fleet.unknown_gpu_hours, fleet.gpu_hours) or 0.0
    if unknown < LEAST_SHARE:
        return ""
    of = f"{number(fleet.unknown_gpu_hours)} may be lost, too ({spoken(unknown, 'share')})"
    return f"another {of}: no capture covers them"


def whole_line(fleet: Fleet) -> str:
    """Line on what the GPU-hours cover."""
    of = "as long as each ran" if fleet.basis == "run" else "if all run for a day"
    more = len(fleet.jobs) - fleet.counted
    left = f"; {counted(more, 'job')} not counted" if more else ""
    return f"{counted(fleet.counted, 'job')} on {counted(fleet.gpus, 'GPU')}, {of}{left}"


def money_line(fleet: Fleet) -> str:
    """Lost money, "" if no price is stated."""
    if fleet.price is None:
        return ""
    of = "" if fleet.priced_share > 0.999 else f", of the {spoken(fleet.priced_share, 'share')} whose price is known"
    return f"{number(fleet.price)} at the stated prices{of}"


def read_line(fleet: Fleet) -> str:
    """Line on the files that were read."""
    parts = [f"{counted(fleet.diagnoses, 'file')} with a diagnosis"]
    if fleet.analysed:
        parts.append(f"{counted(fleet.analysed, 'run')} analysed")
    if fleet.repeats:
        parts.append(f"{fleet.repeats:,} of them repeat another")
    if fleet.unread:
        parts.append(f"{len(fleet.unread):,} cannot be used")
    return "; ".join(parts)


@dataclass(frozen=True)
class CauseRow:
    """A cause with its amount; `key` is the class that colours it, `worst` the jobs with most of it."""

    key: str
    name: str
    amount: str
    share: float
    jobs: str
    money: str
    since: str
    worst: str


def cause_rows(fleet: Fleet, spent: str = "lost") -> list[CauseRow]:
    """The causes that lose, or that work, the largest first; those that round to nothing are left out."""
    return [_cause_row(row) for row in fleet.causes if row.spent == spent and row.share >= LEAST_SHARE]


def _cause_row(row: FleetCause) -> CauseRow:
    return CauseRow(
        key=row.class_,
        name=cause_name(row.cause),
        amount=number(row.gpu_hours),
        share=row.share,
        jobs=f"{row.jobs:,}",
        money="" if row.price is None else number(row.price),
        since=row.first_day,
        worst=names(row.worst),
    )


def names(found: Sequence[str]) -> str:
    """Names of jobs, one after the other."""
    return ", ".join(plain(name) for name in found)


def change_amount(row: FleetChange) -> str:
    """The range of the change's return."""
    return between(row.gpu_hours)


def between(amount: Speedup | None) -> str:
    """`(1.0, 2.5)` is "1.00 to 2.50", `(1.0, None)` is "1.00 or more"."""
    if amount is None:
        return "unknown"
    low, high = amount
    if high is None:
        return f"{number(low)} or more"
    said = number(low), number(high)
    return said[0] if said[0] == said[1] else f"{said[0]} to {said[1]}"


def whole_plans_line(fleet: Fleet) -> str:
    """Line on what all plans return together, also as a share."""
    if fleet.all_changes is None or not fleet.gpu_hours:
        return "no plan predicts anything"
    low, high = (None if end is None else spoken(end / fleet.gpu_hours, "share") for end in fleet.all_changes)
    share = f"at least {low}" if high is None else f"{low} to {high}"
    return f"all plans return {between(fleet.all_changes)} {unit(fleet)}, {share} of all; each job by its own plan"


def change_name(row: FleetChange) -> str:
    """The change, and whether it changes the numbers that training computes."""
    return f"{plain(row.action)}{' (changes numerics)' if row.numerics else ''}"


def group_name(row: FleetGroup) -> str:
    """The group's name, or a text that it is unknown."""
    return plain(row.name) or _UNNAMED[row.kind]


def groups(fleet: Fleet, kind: str) -> list[FleetGroup]:
    """The groups of a kind; empty if they have no names to distinguish them."""
    found = [row for row in fleet.groups if row.kind == kind]
    return [] if all(not row.name for row in found) else found


def group_cells(row: FleetGroup) -> tuple[str, ...]:
    """Cells of a group: jobs, amount, lost, its share, the largest loss."""
    lost = number(row.lost_gpu_hours)
    return (
        f"{row.jobs:,}",
        number(row.gpu_hours),
        lost,
        spoken(row.lost_share, "share"),
        cause_name(row.cause) if row.cause else "",
    )


def job_cells(job: FleetJob) -> tuple[str, ...]:
    """Cells of a job: GPUs, amount, lost share, the largest loss, the next change."""
    return (
        f"{job.gpus:,}",
        "unknown" if job.gpu_hours is None else number(job.gpu_hours),
        "unknown" if job.lost_share is None else spoken(job.lost_share, "share"),
        cause_name(job.cause) if job.cause else "",
        plain(job.because or job.next),
    )


def host_line(row: FleetHost) -> str:
    """Line of a host: the answer, the reasons, the days, and the time that others waited for it."""
    parts = [row.because]
    if row.p_value is not None:
        parts.append(f"p {chance(row.p_value)}")
    if row.reasons:
        parts.append(", ".join(plain(why) for why in row.reasons))
    if row.gpu_hours:
        parts.append(f"{number(row.gpu_hours)} GPU-hours waited for it")
    if row.first_day:
        parts.append(when(row))
    return "; ".join(parts)


def when(row: FleetHost) -> str:
    """The days on which it has the fault, "" if its jobs have no dates."""
    return row.first_day if row.first_day == row.last_day else f"{row.first_day} to {row.last_day}"


def waited(row: FleetHost) -> str:
    """GPU-hours that other ranks waited for it, "" for a fault without waits."""
    return "" if row.gpu_hours is None else number(row.gpu_hours)


def chance(p_value: float | None) -> str:
    """A p-value, "" if there is none."""
    if p_value is None:
        return ""
    return f"{p_value:.1g}" if p_value >= 1e-9 else "below 1e-9"


def hosts_line(fleet: Fleet) -> str:
    """Number of hosts that were tested and of those at fault; unknown if none was tested."""
    late, held = (fleet.hosts_tested.get(fault, 0) for fault in ("late rank", "clock held down"))
    if not late and not held:
        return "unknown, because no job has a late rank on one of several hosts, or clocks of several hosts"
    told = [f"{counted(late, 'host')} by late ranks"] if late else []
    told += [f"{counted(held, 'host')} by clocks"] if held else []
    guilty = len({row.host for row in fleet.hosts if row.answer == "yes"})
    return f"{counted(guilty, 'host')} at fault in more jobs than chance, of {' and '.join(told)}"


def trend_line(row: FleetTrend) -> str:
    """The day since which a cause takes more, or less; or why it is unknown."""
    if row.answer != "yes" or row.before_share is None or row.after_share is None:
        return f"{cause_name(row.cause)}: {'unknown: ' if row.answer == 'unknown' else ''}{row.because}"
    way = "more" if row.after_share > row.before_share else "less"
    return f"{cause_name(row.cause)}: {way} since {row.since_day}: {row.because}"


def trends(fleet: Fleet) -> list[FleetTrend]:
    """The trends that show a change."""
    return [row for row in fleet.trends if row.answer == "yes"]


def no_trend_line(fleet: Fleet) -> str:
    """Line for a fleet in which no trend shows a change."""
    if not fleet.trends:
        return "no cause loses a hundredth of the GPU-hours of dated jobs"
    unknown = [row for row in fleet.trends if row.answer == "unknown"]
    return (
        f"unknown, because {unknown[0].because}"
        if unknown
        else "no cause takes more or less than before, beyond chance"
    )
