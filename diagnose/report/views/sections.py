"""The sections of a report. Text, HTML and Markdown each show every one of them, or say why they leave it out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis


@dataclass(frozen=True)
class Section:
    """A section of the report.

    Attributes:
        fields: of the Diagnosis that it shows.
        view: what a page draws where `report/html/page.py` names no view of its own; without one the first field.
    """

    fields: tuple[str, ...]
    view: Callable[[Diagnosis], object] | None = None

    def shown(self, diagnosis: Diagnosis) -> object:
        """What there is to draw; None where there is nothing."""
        return self.view(diagnosis) if self.view is not None else getattr(diagnosis, self.fields[0])


SECTIONS: Mapping[str, Section] = {
    "verdict": Section(("verdict", "mfu")),
    "steps": Section(("steps", "rank")),
    "applied": Section(("applied",)),
    "notes": Section(("findings",)),
    "history": Section(("history",)),
    "late_ranks": Section(("stragglers",)),
    "missing": Section(("trace",)),
    "ledger": Section(("ledger", "waterfall")),
    "plan": Section(("next", "plan", "replay")),
    "findings": Section(("findings",)),
    "not_advised": Section(("not_advised",)),
    "not_judged": Section(("not_judged",)),
    "timeline": Section(("timeline",)),
    "roofline": Section(("roofline", "operators", "roofs")),
    "kernels": Section(("kernels",)),
    "ranks": Section(("ranks",)),
    "job": Section(("postmortem",)),
    "provenance": Section(("trace", "versions")),
}
IN_NO_SECTION = ("schema_version", "facts")  # findings show the facts that they rest on; --json and --tables have all


@dataclass(frozen=True)
class LeftOut:
    """In place of a section that a report does not show."""

    because: str


def spelled(section: str) -> str:
    """The section's name in a sentence."""
    return f"the {section.replace('_', ' ')}"
