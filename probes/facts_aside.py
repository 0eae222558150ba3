"""The facts of a window, by a module that is only imported when they are due."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .aside import aside


def facts_of(job: object, **known: object) -> dict[str, object]:
    """As `capture_facts.facts`, imported beside the training thread.

    Where a file cannot be looked at, an import takes it for missing, and a signal handler of the job raises anywhere.
    """
    capture_facts: Any = aside(lambda: import_module(".capture_facts", __package__))
    return dict(capture_facts.facts(job, **known))
