"""Diagnose why a training job is slow, what to change next, and how much that gains."""

from typing import TYPE_CHECKING, Any

from diagnose.version import __version__

if TYPE_CHECKING:
    from diagnose.notebook import analyze as analyze

__all__ = ["__version__", "analyze"]


def __getattr__(name: str) -> Any:
    """`diagnose.analyze` on first use: importing the package stays free of numpy for the probes' sake."""
    if name == "analyze":
        from diagnose.notebook import analyze

        return analyze
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
