"""Report each window to the loggers of a Trainer: on rank 0, when the analysis of the window has ended."""

from __future__ import annotations

import json
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from ..guard import guarded, say
from ..session import Session
from . import figures
from .analysis import WindowAnalysis
from .live import Live

AT_THE_END_S = 30.0  # a training that ends before the analysis waits for it no longer than so


class Report:
    """One callback's report of the windows of `session`; with `sends_artifacts` the document goes out, too.

    All of it is for the training thread, and no failure here reaches the job.
    """

    def __init__(self, session: Session, *, sends_artifacts: bool = False) -> None:
        self._session, self._sends_artifacts = session, sends_artifacts
        self._seen = len(session.outcome.written)
        self._analysis: WindowAnalysis | None = None
        self._trainer: Any = None
        self._live, self._ranks = Live(), 1

    def is_of(self, trainer: object) -> None:
        """Set the trainer whose loggers get the reports, without keeping it alive."""
        self._trainer = weakref.ref(trainer)

    def step_ended(self) -> None:
        """Count a step of the training."""
        self._live.step_ended()

    def adds(self, logs: dict[str, Any], samples: float | None) -> None:
        """Add the figures since the last log to this one, if it is of the training; a step takes so many `samples`."""
        if "loss" in logs:
            guarded(lambda: logs.update(self._live.scalars(samples)), "no figures of the steps")

    def look(self) -> None:
        """Begin an analysis that is due and report one that has ended; called between two steps."""
        if self._analysis is not None or self._seen < len(self._session.outcome.written):
            guarded(self._look, "the window is not told")

    def ends(self) -> None:
        """Wait a little for the last analysis, since training has ended and later results reach nobody."""
        guarded(self._wait, "the window is not told")

    def _wait(self) -> None:
        until = time.monotonic() + AT_THE_END_S
        self._look()
        while self._analysis is not None:
            if not self._analysis.ends_within(max(until - time.monotonic(), 0.0)):
                self._analysis.give_up()
                self._analysis = None
                say("training ended before the window was analysed: diagnose analyze tells it")
                return
            self._look()

    def _look(self) -> None:
        """Report the analysis that has ended before the next one begins."""
        if self._analysis is not None and self._analysis.ended:
            ended, self._analysis = self._analysis, None
            self._tell(ended)
        written = self._session.outcome.written
        while self._analysis is None and self._seen < len(written):
            files = written[self._seen]
            self._seen += 1
            if files.rank == 0:
                self._analysis, self._ranks = WindowAnalysis(files.folder, files.world_size), files.world_size

    def _tell(self, ended: WindowAnalysis) -> None:
        diagnosis = ended.diagnosis
        if diagnosis is None:
            if ended.failure:
                say(f"the window is not analysed: {ended.failure}")
            return
        guarded(lambda: self._live.knows(diagnosis, self._ranks), "no rates of the steps")
        guarded(lambda: _log_line(figures.line(diagnosis)), "no log line")
        guarded(lambda: self._log(figures.scalars(diagnosis)), "no figures logged")
        if self._sends_artifacts:
            document = figures.document(diagnosis)
            guarded(lambda: send(document), "no artifact sent")

    def _log(self, scalars: dict[str, float]) -> None:
        """Log by the method of Trainer itself: that of a subclass may add, and clear, figures between two logs.

        With several ranks only this one logs, and a callback of the job may hold a collective that the others never
        join: then only transformers' own loggers are called.
        """
        trainer = self._trainer() if self._trainer is not None else None
        if trainer is None:
            return
        if trainer.args.world_size == 1:
            sys.modules["transformers.trainer"].Trainer.log(trainer, scalars)
            return
        logs = {**scalars, "epoch": trainer.state.epoch}
        for callback in trainer.callback_handler.callbacks:
            if type(callback).__module__.startswith("transformers.integrations"):
                callback.on_log(trainer.args, trainer.state, trainer.control, logs=dict(logs), model=trainer.model)


def _log_line(line: str) -> None:
    """Log the line as a warning, the lowest level that transformers shows by default."""
    from transformers.utils import logging

    logging.get_logger("transformers.diagnose").warning(f"diagnose: {line}")


# The document of a window for the runs that are open in W&B and MLflow; neither is imported here.

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
