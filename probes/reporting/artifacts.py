"""The document of a window for the runs that are open in W&B and MLflow; neither is imported here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..guard import guarded

FILE = "diagnose.json"


def send(document: Mapping[str, Any]) -> None:
    """Send `document` to each logger that has a run open, independently of each other."""
    for name, to in _LOGGERS.items():
        logger: Any = sys.modules.get(name)
        if logger is not None:
            guarded(lambda to=to, logger=logger: to(logger, document), f"no artifact for {name}")  # type: ignore[misc]


def _to_wandb(wandb: Any, document: Mapping[str, Any]) -> None:
    """Write the line and the latest figures to the run's summary, and the document as an artifact.

    Each window is a version of the artifact.
    """
    run = wandb.run
    if run is None:
        return
    run.summary.update({"diagnose/line": document["line"], **document["figures"]})
    artifact = wandb.Artifact(f"diagnose-{run.id}", type="diagnosis")
    with artifact.new_file(FILE, mode="w") as file:
        json.dump(document, file, indent=1)
    run.log_artifact(artifact)


def _to_mlflow(mlflow: Any, document: Mapping[str, Any]) -> None:
    if mlflow.active_run() is not None:
        mlflow.set_tag("diagnose.line", document["line"])
        step = document["figures"].get("diagnose/window_step")
        mlflow.log_dict(dict(document), FILE if step is None else f"diagnose-step-{step:.0f}.json")


_LOGGERS: dict[str, Callable[[Any, Mapping[str, Any]], None]] = {"wandb": _to_wandb, "mlflow": _to_mlflow}
