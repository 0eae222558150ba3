"""One self-contained page: the sections, their style and scripts, and a policy that lets nothing else run."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from diagnose.diagnosis import Diagnosis
from diagnose.errors.defects import netted
from diagnose.facts import duration, spoken
from diagnose.report.html.breakdown import breakdown_view
from diagnose.report.html.heat import heat_view
from diagnose.report.html.job import job_view
from diagnose.report.html.kernels import host_operators_view, kernels_view
from diagnose.report.html.roofline import roofline_view
from diagnose.report.html.timeline import TimelineView, timeline_view
from diagnose.report.views.applied import applied_view
from diagnose.report.views.breakdown import CLASS_NAMES, basis
from diagnose.report.views.capacity import capacity_view
from diagnose.report.views.changes import captures_view, findings_view, plan_view
from diagnose.report.views.cost import cost_lines
from diagnose.report.views.job_words import missing_line
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
    verdict_view,
)
from diagnose.report.views.user_code import user_code_view
from diagnose.report.views.words import causes_named, evidence_line, first_sentence, speedup

_HERE = Path(__file__).parent
_TEMPLATES = _HERE / "templates"
_STYLES = ("report.css", "figures.css")
_SCRIPTS = ("report.js", "table.js", "timeline.js")


@dataclass(frozen=True)
class PageSection:
    """A section of the page: the template of its name draws `view`, unless that is None.

    `inside` is the section whose template includes it; the page includes the others.
    """

    view: Callable[[Diagnosis], object]
    inside: str = ""


_PLACED: dict[str, PageSection | LeftOut] = {  # in the order of the page; what is not named here comes before the last
    "verdict": PageSection(verdict_view),
    "steps": PageSection(steps_line, inside="verdict"),
    "applied": PageSection(applied_view, inside="verdict"),
    "missing": PageSection(missing_line, inside="verdict"),
    "history": PageSection(history_lines, inside="verdict"),
    "late_ranks": PageSection(late_rank_lines, inside="verdict"),
    "notes": PageSection(notes_of, inside="verdict"),
    "ledger": PageSection(breakdown_view),
    "plan": PageSection(plan_view),
    "cost": PageSection(cost_lines),
    "not_advised": PageSection(lambda diagnosis: diagnosis.not_advised),
    "not_judged": PageSection(captures_view, inside="not_advised"),
    "slow_steps": PageSection(slow_steps_view),
    "timeline": PageSection(timeline_view),
    "roofline": PageSection(roofline_view),
    "kernels": PageSection(kernels_view),
    "host_operators": PageSection(host_operators_view),
    "user_code": PageSection(user_code_view),
    "ranges": PageSection(ranges_view),
    "capacity": PageSection(capacity_view),
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
        "data": _data(views["timeline"].data) if isinstance(views["timeline"], TimelineView) else "",
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
