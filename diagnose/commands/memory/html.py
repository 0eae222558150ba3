"""A memory snapshot as one self-contained page, in the style and under the policy of the report's."""

from pathlib import Path

from diagnose.commands.memory.answer import MemoryAnswer
from diagnose.commands.memory.views import (
    HEIGHT,
    WIDTH,
    curve,
    figures,
    given_back,
    nothing_found,
    rows,
    shown_findings,
)
from diagnose.facts import spoken
from diagnose.report.html.page import framed
from diagnose.report.views.summary import About

_STYLES = ("report.css", "figures.css")
_TEMPLATE = Path(__file__).with_name("page.html")


def memory_page(answer: MemoryAnswer, about: About) -> str:
    """The whole page. Every text is escaped; nothing is measured or judged here."""
    devices = [
        {
            "of": device,
            "number": max(device.device, 0),
            "tiles": figures(device),
            "curve": curve(device.usage) if device.usage is not None and device.usage.allocated_bytes else None,
            "peak": rows(device.at_peak),
            "lines": rows(device.lines_at_peak),
            "given_back": given_back(device),
            "alive": rows(device.out_of_memory.alive) if device.out_of_memory is not None else [],
        }
        for device in answer.devices
    ]
    context = {
        "answer": answer,
        "devices": devices,
        "width": WIDTH,
        "height": HEIGHT,
        "nothing": nothing_found(answer),
        "found": shown_findings(answer),
        "is_known": all(device.actions and not device.given_back_by_unknown for device in answer.devices),
        "ledger": [(part.name, spoken(part.bytes, "bytes")) for part in answer.counted],
    }
    title = answer.findings[0].name if answer.findings else "memory"
    return framed(_TEMPLATE, about, title, _STYLES, **context)
