"""The facts of a session's window, by a module that is only imported when they are due."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .aside import aside

if TYPE_CHECKING:
    from .session import Session


def facts_of(session: Session) -> dict[str, object]:
    """Imported beside the training thread: where a file cannot be looked at, an import takes it for missing."""
    capture_facts: Any = aside(lambda: import_module(".capture_facts", __package__))
    return dict(
        capture_facts.facts(
            session.objects,
            window=session.window,
            clock=session.clock,
            recorder=session.recorder,
            source=session.source,
            error=session.error,
        )
    )
