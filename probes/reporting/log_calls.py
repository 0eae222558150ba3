"""The job's calls of Accelerate's and Lightning's loggers, which get the figures of the newest line in the same call.

The thread beside the training offers figures; the training thread takes them, so that each is logged once. What the
job gave, and what it reads of its own values, stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..frameworks import LIGHTNING_ROOTS
from ..hand_over import replace
from .figures import PREFIX

_CONNECTOR = "trainer.connectors.logger_connector.logger_connector"
_MARK = "__diagnose_figures__"  # beside that of the ranges
_offered: dict[str, float] = {}


def install() -> None:
    """Hook the loggers of what is imported; once for each."""
    accelerator: Any = sys.modules.get("accelerate.accelerator")
    if accelerator is not None:
        replace(accelerator.Accelerator, "log", _of_accelerate, "Accelerate's loggers get no figures", _MARK)
    for root in LIGHTNING_ROOTS:
        connector: Any = getattr(sys.modules.get(f"{root}.{_CONNECTOR}"), "_LoggerConnector", None)
        if connector is not None:
            replace(connector, "log_metrics", _of_lightning, "Lightning's loggers get no figures", _MARK)


def offer(figures: Mapping[str, float]) -> None:
    """Give the next log these figures, in place of older ones that none took."""
    global _offered
    _offered = {f"{PREFIX}live_{name}": value for name, value in figures.items()}


def _taken() -> dict[str, float]:
    global _offered
    taken, _offered = _offered, {}
    return taken


def _of_accelerate(original: Any, accelerator: Any, /, values: Any, *args: Any, **kwargs: Any) -> Any:
    figures = _taken() if type(values) is dict and accelerator.trackers else {}
    return original(accelerator, {**values, **figures} if figures else values, *args, **kwargs)


def _of_lightning(original: Any, connector: Any, /, metrics: Any, *args: Any, **kwargs: Any) -> Any:
    trains = type(metrics) is dict and metrics and connector.trainer.training and connector.trainer.loggers
    figures = _taken() if trains else {}
    result = original(connector, {**metrics, **figures} if figures else metrics, *args, **kwargs)
    for name in figures:  # what the job reads as `trainer.logged_metrics` is its own
        connector._logged_metrics.pop(name, None)
    return result
