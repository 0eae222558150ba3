"""Report each window to the loggers of a Trainer: on rank 0, when the analysis of the window has ended."""

from __future__ import annotations

import json
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from ..guard import guarded, say
from ..machine.now import Machine, MachineNow
from ..session import Session
from . import figures
from .analysis import WindowAnalysis, Windows
from .live import Live

AT_THE_END_S = 30.0  # a training that ends before the analysis waits for it no longer than so


class Report:
    """One callback's report of the windows of `session`; with `sends_artifacts` the document goes out, too.

    All of it is for the training thread, and no failure here reaches the job.

    Attributes:
        windows: their analyses.
    """

    def __init__(self, session: Session, *, sends_artifacts: bool = False) -> None:
        self._session, self._sends_artifacts = session, sends_artifacts
        self.windows = Windows(session.outcome.written)
        self._trainer: Any = None
        self._told_unlogged = False
        self._machine = MachineNow()
        self._live = Live(machine=self._machine_now)

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
        if self.windows.are_due:
            guarded(self._look, "the window is not told")

    def ends(self) -> None:
        """Wait a little for the last analysis, since training has ended and later results reach nobody."""
        guarded(self._wait, "the window is not told")
        guarded(self._machine.stop, "the machine is still read")

    def _machine_now(self) -> Machine:
        """The readings that an armed session makes anyway, else those for the logs."""
        return self._machine() if self._session.config.armed is None else self._session.machine_now()

    def _wait(self) -> None:
        until = time.monotonic() + AT_THE_END_S
        self._look()
        while self.windows.analysis is not None:
            if not self.windows.analysis.ends_within(max(until - time.monotonic(), 0.0)):
                self.windows.give_up()
                say("training ended before the window was analysed: diagnose analyze tells it")
                return
            self._look()

    def _look(self) -> None:
        ended = self.windows.look()
        if ended is not None:
            self._tell(ended)

    def _tell(self, ended: WindowAnalysis) -> None:
        diagnosis = ended.diagnosis
        if diagnosis is None:
            if ended.failure:
                say(f"the window is not analysed: {ended.failure}")
            return
        guarded(lambda: self._live.knows(diagnosis), "no rates of the steps")
        guarded(lambda: _log_line(figures.line(diagnosis)), "no log line")
        guarded(self._tell_unlogged, "no log line")
        guarded(lambda: self._log(figures.scalars(diagnosis)), "no figures logged")
        if self._sends_artifacts:
            document = figures.document(diagnosis)
            guarded(lambda: send(document), "no artifact sent")

    def _tell_unlogged(self) -> None:
        """Say once which figures the logs of the training lack, and why."""
        lacks = self._live.unlogged
        if lacks and not self._told_unlogged:
            self._told_unlogged = True
            _log_line(f"no live {' and '.join(f'{name} ({why})' for name, why in lacks.items())}")

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
