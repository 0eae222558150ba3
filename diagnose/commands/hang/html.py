"""A job that hangs as one self-contained page, in the style and under the policy of the report's."""

from pathlib import Path
from typing import Any

from diagnose.commands.hang.answer import CallOf, Fault, Hang
from diagnose.commands.hang.views import VERDICTS, call_line, parted, reached, seen_without_dump, stack_of
from diagnose.report.html.page import framed
from diagnose.report.views.summary import About

_STYLES = ("report.css",)
_TEMPLATE = Path(__file__).with_name("page.html")


def hang_page(answer: Hang, about: About) -> str:
    """The whole page. Every text is escaped; nothing is judged here."""
    verdict = VERDICTS[answer.verdict]
    context = {
        "answer": answer,
        "verdict": verdict,
        "mood": {"hung": "critical", "slow": "warning", "nothing-open": "good"}.get(answer.verdict, ""),
        "faults": [_fault(answer, fault) for fault in answer.faults],
        "seen": seen_without_dump(answer),
        "ranks": [(state, reached(state) if state.file else "no dump") for state in answer.ranks],
    }
    return framed(_TEMPLATE, about, verdict, _STYLES, **context)


def _fault(answer: Hang, fault: Fault) -> dict[str, Any]:
    seen = {state.rank: state.stack for state in answer.ranks if state.stack}
    what = "waits" if fault.kind == "missing-rank" else "calls"
    sides = [(what, call) for call in fault.calls] + [("last", call) for call in fault.instead]
    return {
        "kind": fault.kind,
        "says": fault.says,
        "calls": [_call(label, call) for label, call in sides],
        "seen": [(rank, seen[rank]) for rank in fault.blamed if rank in seen],
        "parted": parted(fault.parted_at) if fault.parted_at is not None and fault.parted_at < fault.number else "",
    }


def _call(label: str, call: CallOf) -> dict[str, Any]:
    own, whole = stack_of(call, whole=False), stack_of(call, whole=True)
    return {"label": label, "line": call_line(call), "own": own, "whole": whole if whole != own else []}
