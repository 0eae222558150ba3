"""Analyze files into a Diagnosis: each rank by itself, the ranks of a run, and the job."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diagnose.analysis.answer import analyze
    from diagnose.analysis.job import Examined, examined
    from diagnose.analysis.options import Options

_HOMES = {"analyze": "answer", "Options": "options"}
__all__ = ["Examined", "Options", "analyze", "examined"]


def __getattr__(name: str) -> Any:
    """Import an attribute from its module on first use: processes that only read ranks never load the judge."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'job')}"), name)
