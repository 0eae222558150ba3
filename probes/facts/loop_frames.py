"""Find the library that runs the training loop, by the modules on the stack when an optimizer step ends."""

from __future__ import annotations

import sys
from types import FrameType

from ..frameworks import FRAMEWORKS


def loop_on_stack() -> str | None:
    """Name of the library whose loop calls this, as the record spells it; None in a loop of the job's own."""
    modules = _modules(sys._getframe())
    return next((each.name for each in FRAMEWORKS if any(map(each.runs, modules))), None)


def _modules(frame: FrameType | None) -> set[str]:
    """Names of the modules on the stack; the job's own objects are not asked."""
    names = set()
    while frame is not None:
        name = dict.get(frame.f_globals, "__name__")
        if type(name) is str:
            names.add(name)
        frame = frame.f_back
    return names
