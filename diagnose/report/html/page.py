"""One self-contained page: the sections, their style and scripts, and a policy that lets nothing else run.

The kernel table: short names to read, full names to search.

The ranks side by side: each cause's share of the rank's own step.
"""

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from diagnose.diagnosis import Diagnosis, KernelRow, OperatorRow, RankReport
from diagnose.errors.defects import netted
from diagnose.facts import duration, spoken
from diagnose.report.html.breakdown import breakdown_view
from diagnose.report.html.capacity import capacity_section
from diagnose.report.html.flame import code_section
from diagnose.report.html.job import job_view
from diagnose.report.html.job_timeline import JobTimelineView, job_timeline_view
from diagnose.report.html.memory_over_time import memory_drawing
from diagnose.report.html.roofline import roofline_view
from diagnose.report.html.step_times import step_curve
from diagnose.report.html.timeline import TimelineView, timeline_view
from diagnose.report.html.verdict import verdict_card
from diagnose.report.views.applied import applied_view
from diagnose.report.views.breakdown import CLASS_NAMES, basis
from diagnose.report.views.changes import captures_view, findings_view, plan_view
from diagnose.report.views.cost import cost_lines
from diagnose.report.views.gains import speedup
from diagnose.report.views.goodput import goodput_view
from diagnose.report.views.heat import level, worst_first
from diagnose.report.views.job_words import late_stage_lines, missing_line
from diagnose.report.views.plain import plain
from diagnose.report.views.ranges import ranges_view
from diagnose.report.views.sections import SECTIONS as ALL_SECTIONS
from diagnose.report.views.sections import LeftOut, spelled
from diagnose.report.views.slow_steps import slow_steps_view
from diagnose.report.views.summary import (
    About,
    history_lines,
    late_rank_lines,
    notes_of,
    provenance_view,
    steps_line,
)
from diagnose.report.views.windows import windows_lines
from diagnose.report.views.words import (
    cause_name,
    causes_named,
    counted,
    evidence_line,
    first_sentence,
    short_name,
    times,
)

_HERE = Path(__file__).parent
_TEMPLATES = _HERE / "templates"
_STYLES = ("report.css", "figures.css")
_SCRIPTS = ("report.js", "table.js", "timeline.js", "ranks.js", "flame.js")


@dataclass(frozen=True)
class PageSection:
    """A section of the page: the template of its name draws `view`, unless that is None.

    `inside` is the section whose template includes it; the page includes the others.
    """

    view: Callable[[Diagnosis], object]
    inside: str = ""


_FAMILIES = {"comm": "collectives", "memcpy": "copies"}


@dataclass(frozen=True)
class KernelView:
    """One kernel as shown; `row` keeps the numbers that columns are sorted by, `full` is "" if `short` is all."""

    row: KernelRow
    short: str
    full: str
    kind: str
    ns: str
    mean: str
    count: str
    above: str


def kernels_view(diagnosis: Diagnosis) -> list[KernelView] | None:
    """Every row of the diagnosis, in its order; None without kernels."""
    return [_view(row) for row in diagnosis.kernels] or None


@dataclass(frozen=True)
class OperatorView:
    """One operator as shown; `row` keeps the numbers that columns are sorted by."""

    row: OperatorRow
    name: str
    ns: str
    mean: str
    count: str


def host_operators_view(diagnosis: Diagnosis) -> list[OperatorView] | None:
    """The operators of a job without a GPU, in their order; None without any."""
    rows = [
        OperatorView(
            row, row.name or counted(row.names, "other name"), duration(row.ns), duration(row.mean_ns), times(row.count)
        )
        for row in diagnosis.host_operators
    ]
    return rows or None


def _view(row: KernelRow) -> KernelView:
    short = short_name(row.name) if row.name else counted(row.names, "other name")
    family = _FAMILIES.get(row.family) or (cause_name(row.family) if row.family else "")
    return KernelView(
        row=row,
        short=short,
        full=row.name if plain(row.name) != short else "",
        kind=" · ".join(filter(None, (row.class_, family if family != row.class_ else ""))),
        ns=duration(row.ns),
        mean=duration(row.mean_ns),
        count=times(row.count),
        above="" if row.above_roof_ns is None else duration(row.above_roof_ns),
    )


CAUSES_SHOWN = 9
RANKS_SHOWN = 64
VISIBLE = 0.005


@dataclass(frozen=True)
class Cell:
    """A share with the step of the colour scale that it falls in, 0 to 7."""

    share: float
    level: int


@dataclass(frozen=True)
class HeatSectionRow:
    """One rank."""

    rank: RankReport
    late: bool
    cells: list[Cell]
    rest: Cell


@dataclass(frozen=True)
class HeatSection:
    """`causes` are (cause, class), those with most time first; `rest` is what the other causes hold together."""

    causes: list[tuple[str, str]]
    rows: list[HeatSectionRow]
    hidden: int
    devices: list[str]


def heat_view(diagnosis: Diagnosis) -> HeatSection | None:
    """The table; None for a single rank."""
    if len(diagnosis.ranks) < 2:
        return None
    causes = _causes(diagnosis)
    late = {straggler.rank for straggler in diagnosis.stragglers}
    shown = sorted(worst_first(diagnosis)[:RANKS_SHOWN], key=lambda rank: rank.rank)
    return HeatSection(
        causes=causes,
        rows=[_row(rank, [cause for cause, _ in causes], rank.rank in late) for rank in shown],
        hidden=len(diagnosis.ranks) - len(shown),
        devices=sorted({rank.device for rank in diagnosis.ranks}),
    )


def _causes(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The causes that hold most on any rank."""
    most: dict[tuple[str, str], float] = defaultdict(float)
    for rank in diagnosis.ranks:
        for entry in rank.ledger:
            most[entry.cause, entry.class_] = max(most[entry.cause, entry.class_], entry.share)
    ordered = sorted((key for key, share in most.items() if share >= VISIBLE), key=lambda key: -most[key])
    return ordered[:CAUSES_SHOWN]


def _row(rank: RankReport, causes: list[str], late: bool) -> HeatSectionRow:
    shares = {entry.cause: entry.share for entry in rank.ledger}
    rest = sum(share for cause, share in shares.items() if cause not in causes)
    return HeatSectionRow(rank, late, [_cell(shares.get(cause, 0.0)) for cause in causes], _cell(rest))


def _cell(share: float) -> Cell:
    return Cell(share, level(share))


def _late(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The late ranks, then the late stages: the label of each, and a sentence."""
    stages = [("Late stage", line) for line in late_stage_lines(diagnosis)]
    return [*(("Straggler", line) for line in late_rank_lines(diagnosis)), *stages]


_PLACED: dict[str, PageSection | LeftOut] = {  # in the order of the page; what is not named here comes before the last
    "verdict": PageSection(verdict_card),
    "steps": PageSection(steps_line, inside="verdict"),
    "applied": PageSection(applied_view, inside="verdict"),
    "missing": PageSection(missing_line, inside="verdict"),
    "windows": PageSection(windows_lines, inside="verdict"),
    "history": PageSection(history_lines, inside="verdict"),
    "goodput": PageSection(goodput_view, inside="verdict"),
    "late_ranks": PageSection(_late, inside="verdict"),
    "notes": PageSection(notes_of, inside="verdict"),
    "ledger": PageSection(breakdown_view),
    "plan": PageSection(plan_view),
    "cost": PageSection(cost_lines),
    "not_advised": PageSection(lambda diagnosis: diagnosis.not_advised),
    "not_judged": PageSection(captures_view, inside="not_advised"),
    "step_times": PageSection(step_curve),
    "slow_steps": PageSection(slow_steps_view),
    "job_timeline": PageSection(job_timeline_view),
    "timeline": PageSection(timeline_view),
    "roofline": PageSection(roofline_view),
    "kernels": PageSection(kernels_view),
    "host_operators": PageSection(host_operators_view),
    "user_code": PageSection(code_section),
    "ranges": PageSection(ranges_view),
    "memory_over_time": PageSection(memory_drawing),
    "capacity": PageSection(capacity_section),
    "ranks": PageSection(heat_view),
    "job": PageSection(job_view, inside="ranks"),
    "findings": PageSection(findings_view),
}
SECTIONS: dict[str, PageSection | LeftOut] = {
    **_PLACED,
    **{  # parts whose template draws the first field unchanged
        name: PageSection(attrgetter(fields[0]))
        for name, fields in ALL_SECTIONS.items()
        if name not in (*_PLACED, "provenance")
    },
    "provenance": PageSection(provenance_view),
}


def page(diagnosis: Diagnosis, about: About) -> str:
    """The whole page. Every text is escaped; nothing is measured or judged here."""
    context = context_of(diagnosis, about)
    return environment().get_template("page.html").render(context)


def context_of(diagnosis: Diagnosis, about: About) -> dict[str, Any]:
    """The context of the templates: the view of each section by its name, and the frame of the page."""
    failed: list[str] = []
    parts = {name: part for name, part in SECTIONS.items() if isinstance(part, PageSection)}
    views = {name: netted(spelled(name), partial(part.view, diagnosis), failed.append) for name, part in parts.items()}
    shown = [name for name, part in parts.items() if not part.inside and views[name] is not None]
    styles, scripts, of = embedded(_STYLES), embedded(_SCRIPTS), basis(diagnosis)
    return views | {
        "about_rows": about.rows(diagnosis),
        "policy": policy(styles, scripts),
        "styles": styles,
        "scripts": scripts,
        "title": f"{diagnosis.verdict.class_}, {duration(of.step_ns)} per {of.name} - diagnose",
        "step": of.name,
        "label_of": causes_named(diagnosis),
        "sections": shown,
        "failed": failed,
        "data": {
            f"{name.replace('_', '-')}-data": _data(view.data)
            for name, view in views.items()
            if isinstance(view, TimelineView | JobTimelineView)
        },
    }


def framed(template: Path, about: About, title: str, style_files: tuple[str, ...], **context: Any) -> str:
    """A page that runs no script: the template and its context in the frame, style and policy of all such pages."""
    styles = embedded(style_files)
    frame = {
        "title": f"{title} - diagnose",
        "styles": styles,
        "policy": policy(styles, []),
        "version": about.version,
        "command": about.command,
    }
    return environment(template.parent).get_template(template.name).render(context | frame)


@cache
def environment(folder: Path = _TEMPLATES) -> Environment:
    """The templates, each compiled once for all pages of the process, with filters that spell values.

    Args:
        folder: holds the page's own template, in addition to those that all pages include.
    """
    templates = Environment(
        loader=FileSystemLoader([folder, _TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Callable[..., str]] = {
        "class_name": lambda key: CLASS_NAMES.get(key, ""),
        "duration": duration,
        "share": lambda value: spoken(float(value), "share"),
        "spoken": spoken,
        "speedup": speedup,
        "first_sentence": first_sentence,
        "evidence": evidence_line,
    }
    templates.filters.update(filters)
    return templates


def _printable(value: Any) -> Any:
    """Control characters and marks of direction as escapes, so that no name can reorder the text around it."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def embedded(names: tuple[str, ...]) -> list[Markup]:
    """The static files as they stand in the page."""
    return [Markup((_HERE / "static" / name).read_text(encoding="utf-8")) for name in names]


def policy(styles: list[Markup], scripts: list[Markup]) -> Markup:
    """Nothing loads, and only these very styles and scripts apply."""
    style, script = (" ".join(_hash(text) for text in texts) for texts in (styles, scripts))
    return Markup(f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(values: object) -> Markup:
    """JSON in which nothing can end the script element that holds it."""
    text = json.dumps(values, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
