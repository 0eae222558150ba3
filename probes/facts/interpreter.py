"""Tools that Python calls for each allocation, call or line of the job: they slow all code of its training thread."""

from __future__ import annotations

import sys
import tracemalloc  # a variable or an option starts it without a module that is imported
from collections.abc import Iterator

from ..guard import quietly

_TOOLS = 6  # of sys.monitoring, by its documentation


def traced_by() -> str:
    """The tools that are on in this thread, with commas; "nothing" if none is."""
    return ", ".join(_on()) or "nothing"


def _on() -> Iterator[str]:
    if tracemalloc.is_tracing():
        yield "tracemalloc"
    for name in ("settrace", "setprofile"):
        if getattr(sys, name.replace("set", "get"))() is not None:
            yield f"sys.{name}"
    if quietly(_is_monitored):
        yield "sys.monitoring"
    if sys.flags.dev_mode:
        yield "python -X dev"


def _is_monitored() -> bool:
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and any(
        monitoring.get_tool(tool) is not None and monitoring.get_events(tool) for tool in range(_TOOLS)
    )
