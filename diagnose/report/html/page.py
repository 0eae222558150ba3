"""One self-contained page: the sections, their style and scripts, and a policy that lets nothing else run."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from diagnose.defects import netted
from diagnose.diagnosis import Diagnosis
from diagnose.facts import duration, spoken
from diagnose.report.html.changes import changes_view
from diagnose.report.html.heat import heat_view
from diagnose.report.html.job import job_view
from diagnose.report.html.kernels import kernels_view
from diagnose.report.html.ledger import ledger_view
from diagnose.report.html.roofline import roofline_view
from diagnose.report.html.summary import provenance_view, summary_view
from diagnose.report.html.timeline import timeline_view
from diagnose.report.ledger import CLASS_NAMES, basis
from diagnose.report.page import plain
from diagnose.report.words import Named, causes_named, evidence_line, speedup

View = TypeVar("View")

_HERE = Path(__file__).parent
_STYLES = ("report.css", "figures.css")
_SCRIPTS = ("report.js", "table.js", "timeline.js")


@dataclass(frozen=True)
class About:
    """What wrote the page: the version of diagnose, and the command line, "" when there was none."""

    version: str
    command: str = ""


def page(diagnosis: Diagnosis, about: About) -> str:
    """The whole page. Every text is escaped; nothing is measured or judged here."""
    styles, scripts = _embedded(_STYLES), _embedded(_SCRIPTS)
    failed: list[str] = []
    timeline = _view("the timeline", lambda: timeline_view(diagnosis), failed)
    step = basis(diagnosis).name
    return (
        _environment(step, causes_named(diagnosis))
        .get_template("page.html")
        .render(
            policy=_policy(styles, scripts),
            styles=styles,
            scripts=scripts,
            step=step,
            summary=summary_view(diagnosis),
            ledger=ledger_view(diagnosis),
            changes=changes_view(diagnosis),
            timeline=timeline,
            data=_data(timeline.data) if timeline else "",
            roofline=_view("the roofline", lambda: roofline_view(diagnosis), failed),
            kernels=_view("the kernels", lambda: kernels_view(diagnosis), failed),
            heat=_view("the ranks", lambda: heat_view(diagnosis), failed),
            job=_view("the job", lambda: job_view(diagnosis), failed),
            provenance=provenance_view(diagnosis, about.version, about.command),
            failed=failed,
        )
    )


def _view(name: str, action: Callable[[], View | None], failed: list[str]) -> View | None:
    """The view, None where it fails; `failed` then says so."""
    return netted(name, action, failed.append)


def _environment(step: str, named: Named) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Callable[..., str]] = {
        "cause": named,
        "class_name": lambda key: CLASS_NAMES.get(key, ""),
        "duration": duration,
        "share": lambda value: spoken(float(value), "share"),
        "spoken": spoken,
        "speedup": speedup,
        "evidence": evidence_line,
    }
    environment.filters.update(filters)
    return environment


def _printable(value: Any) -> Any:
    """Control characters and marks of direction as escapes, so that no name can reorder the text around it."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _embedded(names: tuple[str, ...]) -> list[Markup]:
    return [Markup((_HERE / "static" / name).read_text(encoding="utf-8")) for name in names]


def _policy(styles: list[Markup], scripts: list[Markup]) -> Markup:
    """Nothing loads, and only these very styles and scripts apply."""
    style, script = (" ".join(_hash(text) for text in texts) for texts in (styles, scripts))
    return Markup(f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(values: object) -> Markup:
    """JSON in which nothing can end the script element that holds it."""
    text = json.dumps(values, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
