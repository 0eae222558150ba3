"""Named measurements of one rank. Each returns a number, a flag or a text, or Unknown with the reason.

A metric is registered by being in this folder or a folder in it: `registered` imports every module here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from diagnose.metrics.settings import Settings

if TYPE_CHECKING:
    from diagnose.metrics.job_facts import merged
    from diagnose.metrics.measured import Measured
    from diagnose.metrics.registered import REGISTRY, Metric, measure, units

_HOMES = {"merged": "job_facts", "Measured": "measured"}
__all__ = ["REGISTRY", "Measured", "Metric", "Settings", "measure", "merged", "units"]


def __getattr__(name: str) -> Any:
    """Import the modules' attributes on first use: callers that need only the settings measure nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'registered')}"), name)
