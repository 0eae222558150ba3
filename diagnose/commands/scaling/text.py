"""The terminal report of `diagnose scaling`: a table for each job, the wall, and the GPUs for each purpose."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from diagnose.commands.scaling.answer import Scaling, ScalingReport, Size
from diagnose.diagnosis import Estimate, Money
from diagnose.diagnosis.estimates import between, hours_text, number, tokens_text
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted

JOBS_SHOWN = 4
_KINDS = {
    "weak": "weak: a GPU does the same work at every size",
    "strong": "strong: the job does the same work at every size",
    "mixed": "mixed: the work of a step follows neither the GPUs nor the job",
    "unknown": "weak or strong is unknown, because the tokens of a step are not known",
}


@dataclass(frozen=True)
class _Column:
    """A column of the table: its heading, a cell for each size, and its rank for omission on a narrow page."""

    head: str
    cell: Callable[[Size], str]
    rank: int


def render(report: ScalingReport, console: Console) -> None:
    """Print `report`. Nothing is measured or judged here."""
    page = Page(console)
    shown = report.jobs[:JOBS_SHOWN]
    for job in shown:
        _print_job(page, job, report)
    if len(report.jobs) > len(shown):
        more = f"{len(report.jobs) - len(shown)} more jobs: --json has all, --where COLUMN=TEXT chooses"
        page.paragraph(Text(more, "dim"), label="more")
    for i, note in enumerate(report.notes):
        page.paragraph(Text(plain(note), "dim"), label="" if i else "notes")
    page.paragraph(Text(plain(", ".join(report.sources)), "dim"), label="read", most=3)


def _print_job(page: Page, job: Scaling, report: ScalingReport) -> None:
    print_head(page.console, _head(job), "bold yellow" if job.wall.earliest else "bold")
    page.paragraph(Text(plain(job.name or "the runs"), "bold"), label="job", most=3)
    page.paragraph(_KINDS[job.kind], label="scaling")
    page.gap()
    _print_table(page, job)
    page.gap()
    if job.because and job.because != job.wall.because:
        page.paragraph(plain(job.because), label="unknown")
    _print_costs(page, job, report)
    for purpose in job.purposes[1:]:
        page.paragraph(plain(purpose.says), label=_short(purpose.purpose))
    for note in job.notes:
        page.paragraph(Text(plain(note), "dim"), label="note")
    page.gap()


def _short(purpose: str) -> str:
    return {"least energy": "energy"}.get(purpose, purpose)


def _print_table(page: Page, job: Scaling) -> None:
    """Print as many columns as fit; the columns that are kept longest show the range of extrapolated sizes."""
    columns = _fitting(page, job)
    widths = [_width(column, job.sizes) for column in columns]
    page.line(Text("  ".join(c.head.rjust(w) for c, w in zip(columns, widths, strict=True)), "bold"))
    for size in job.sizes:
        cells = (column.cell(size).rjust(width) for column, width in zip(columns, widths, strict=True))
        page.line(Text("  ".join(cells), "" if size.runs else "dim"))
    hidden = len(_columns(job)) - len(columns)
    ranges = " *extrapolated: a range, or ~ what is likely." if any(not size.runs for size in job.sizes) else ""
    left = f" {counted(hidden, 'column')} left out: a wider page or --json has all." if hidden else ""
    page.paragraph(Text(f"Efficiency, speed-up, tax and cost are over {_gpus(job.base_gpus)}.{ranges}{left}", "dim"))


def _columns(job: Scaling) -> list[_Column]:
    """The columns in their order, without those that no size has; the highest rank is left out first."""
    every = [
        _Column("GPUs", lambda s: f"{s.gpus:,}{'' if s.runs else '*'}", 0),
        _Column("tokens/s", lambda s: _range(s, s.tokens_per_s, number), 2),
        _Column("per GPU", lambda s: _likely(s, s.tokens_per_s_per_gpu, lambda v: f"{v:,.0f}"), 4),
        _Column("speed-up", lambda s: _likely(s, s.speedup, lambda v: f"{v:.2f}x" if v < 100 else f"{v:.0f}x"), 5),
        _Column("efficiency", lambda s: _range(s, s.efficiency, _percent, " %"), 1),
        _Column("doubling", lambda s: _likely(s, s.doubling_efficiency, lambda v: f"{_percent(v)} %"), 6),
        _Column("step ms", lambda s: _likely(s, s.step_s, _ms), 8),
        _Column("tax ms", lambda s: _likely(s, s.tax_s, _ms), 3),
        _Column("cost", lambda s: _likely(s, s.cost_factor, lambda v: f"{v:.2f}x"), 7),
    ]
    return [column for column in every if any(column.cell(size) != "-" for size in job.sizes)]


def _fitting(page: Page, job: Scaling) -> list[_Column]:
    columns = _columns(job)
    while len(columns) > 1 and sum(_width(c, job.sizes) + 2 for c in columns) - 2 > page.width:
        columns.remove(max(columns, key=lambda column: column.rank))
    return columns


def _width(column: _Column, sizes: Sequence[Size]) -> int:
    return max(len(column.head), *(len(column.cell(size)) for size in sizes))


def _range(size: Size, estimate: Estimate | None, words: Callable[[float], str], unit: str = "") -> str:
    """The measured value, or the range of an extrapolated one."""
    if estimate is None:
        return "-"
    low, likely, high = (words(value) for value in estimate)
    return f"{likely}{unit}" if size.runs or low == high else f"{low}-{high}{unit}"


def _likely(size: Size, estimate: Estimate | None, words: Callable[[float], str]) -> str:
    """The measured value, or the likely value of an extrapolated one."""
    return "-" if estimate is None else words(estimate[1]) if size.runs else f"~{words(estimate[1])}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f}" if seconds < 10 else f"{1e3 * seconds:,.0f}"


def _gpus(count: int) -> str:
    return f"{count:,} GPU{'' if count == 1 else 's'}"


def _head(job: Scaling) -> list[ScreenLine]:
    """How far the job scales, what a step loses, where it ends, and how many GPUs to take."""
    chosen = job.purposes[0] if job.purposes else None
    return [
        ScreenLine("verdict", _verdict(job)),
        ScreenLine("why", _tax(job)),
        ScreenLine("wall", plain(_wall_line(job)), warns=job.wall.earliest is not None),
        ScreenLine("next", plain(f"{_short(chosen.purpose)}: {chosen.says}") if chosen else ""),
    ]


def _verdict(job: Scaling) -> str:
    """The speed and the efficiency of the largest size that was run."""
    measured = [size for size in job.sizes if size.runs]
    last = measured[-1] if measured else None
    if last is None or last.efficiency is None or last.speedup is None or last.gpus == job.base_gpus:
        return plain(f"unknown, because {job.because or 'one size was run, and scaling needs two'}")
    speed = last.speedup[1]
    times = f"{speed:.2f}x" if speed < 10 else f"{speed:.1f}x"
    return (
        f"{_gpus(last.gpus)} run {times} as fast as {_gpus(job.base_gpus)}: efficiency {_percent(last.efficiency[1])} %"
    )


def _tax(job: Scaling) -> str:
    """The causes of the longer step, at the largest size whose diagnosis shows them."""
    taxed = [(size, size.tax_s[1]) for size in job.sizes if size.runs and size.tax_s and size.gpus > job.base_gpus]
    told = [one for one in taxed if one[0].tax_parts]
    known = [size for size in job.sizes if size.communication_s is not None]
    if told or (taxed and not known):
        last, tax_s = (told or taxed)[-1]
        longer = f"{_ms(abs(tax_s))} ms {'longer' if tax_s >= 0 else 'shorter'}"
        parts = ", ".join(f"{part.name} {1e3 * part.s:+,.1f} ms" for part in last.tax_parts if abs(part.s) >= 5e-5)
        return plain(
            f"a step at {_gpus(last.gpus)} takes {longer} than at {_gpus(job.base_gpus)}{f': {parts}' if parts else ''}"
        )
    if not known:
        return ""
    exposed = _ms(known[-1].communication_s or 0.0)
    return f"{exposed} ms of a step at {_gpus(known[-1].gpus)} are communication that no work hides"


def _wall_line(job: Scaling) -> str:
    wall = job.wall
    if wall.because:
        return f"unknown, because {wall.because}"
    if wall.earliest is None:
        return f"none up to {_gpus(wall.horizon)}: communication stays shorter than the work of a step"
    until = f"or {_gpus(wall.latest)} at the latest" if wall.latest else f"or not up to {_gpus(wall.horizon)}"
    told = wall.likely is not None and wall.likely >= job.base_gpus
    likely = f", {_gpus(wall.likely)} is likely" if told and wall.likely else ""
    first = f"at {_gpus(wall.earliest)} at the earliest"
    if wall.earliest < job.base_gpus:
        first = f"perhaps below {_gpus(job.base_gpus)} already, which a smaller run would show"
    return f"{first}{likely}, {until}: communication then takes longer than the work"


def _print_costs(page: Page, job: Scaling, report: ScalingReport) -> None:
    """Print the costs of the smallest size, the largest that was run and the largest that was considered."""
    sizes = [size for size in job.sizes if _is_known(size.billion, size.training_h)]
    measured = [size for size in sizes if size.runs]
    chosen = list(dict.fromkeys([*measured[:1], *measured[-1:], *sizes[-1:]]))
    for i, size in enumerate(chosen):
        page.paragraph(_cost_line(size, report), label="" if i else "costs")
    if any(size.billion.kwh for size in chosen):
        pue = f", times a PUE of {report.pue:g}" if report.pue != 1 else ", without what the data centre adds (--pue)"
        page.paragraph(Text(f"energy of {number(report.power_w or 0)} W for a GPU by {report.power_from}{pue}", "dim"))


def _is_known(money: Money, hours: Estimate | None) -> bool:
    return money.price is not None or money.kwh is not None or hours is not None


def _cost_line(size: Size, report: ScalingReport) -> str:
    star = "" if size.runs else " (extrapolated)"
    parts = [f"{between(money, number)} per billion tokens" for money in [size.billion.price] if money]
    parts += [f"{between(kwh, number)} kWh" for kwh in [size.billion.kwh] if kwh]
    parts += [f"{between(kg, number)} kg CO2e" for kg in [size.billion.kg_co2e] if kg]
    if size.training_h is not None and report.tokens is not None:
        price = f" for {between(size.training.price, number)}" if size.training.price else ""
        parts.append(f"{tokens_text(report.tokens)} in {between(size.training_h, hours_text)}{price}")
    return f"{_gpus(size.gpus)}{star}: {', '.join(parts)}"
