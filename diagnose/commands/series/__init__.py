"""Step times over a whole job: since when it is slower, by how much, where, and which steps to look at."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diagnose.commands.series.answer import Periodic, SeriesReport, Stall, SuggestedCapture, to_json
    from diagnose.commands.series.judge import judged

_HOMES = {"judged": "judge"}
__all__ = ["Periodic", "SeriesReport", "Stall", "SuggestedCapture", "judged", "to_json"]


def __getattr__(name: str) -> Any:
    """What a module has, on first use: what an answer is made of takes long to load."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'answer')}"), name)
