"""One run of the job, ended after its window: its measurement, or how it failed."""

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from diagnose import analysis
from diagnose.capture.bundle import Bundle
from diagnose.capture.command import environment
from diagnose.capture.job import RunningCommand
from diagnose.commands.tune.answer import Settings
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, printable
from diagnose.patch.patch_file import Request
from diagnose.probes import protocol
from diagnose.probes.config import Config

STEPS = 6
CONTROL = 12  # before the window and after it; half as many show a speed-up to 10 to 50 % on a machine that others use
_POLL_EVERY_S = 0.2
_ENDS_WITHIN_S = 30.0
_KILLED = 137  # by SIGKILL, as the kernel does if memory is short
_LOG_BYTES = 1 << 16
_LONGEST = 200
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|can't allocate memory|Cannot allocate memory|\bMemoryError\b|bad_alloc",
    re.IGNORECASE,
)
_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt)\b.*", re.MULTILINE)


@dataclass(frozen=True)
class CapturedSteps:
    """The window that each run captures, in optimizer steps; the job ends after it. It is the same for all runs."""

    steps: int = STEPS
    warmup: int = protocol.WARMUP
    skip: int = protocol.SKIP
    at_step: int | None = None
    control: int = CONTROL

    def config(self, number: int) -> Config:
        """The probe's settings for the run of that number.

        Stacks are sampled in the first run alone: sampling costs steps.
        """
        return Config(
            "",
            self.steps,
            self.warmup,
            self.skip,
            self.at_step,
            stop=True,
            control=self.control,
            sample_steps=0 if number else None,
        )


@dataclass(frozen=True)
class EndedRun:
    """The end of a run.

    Attributes:
        outcome: "interrupted" if the user asked it to end.
        code: the exit code, as a shell gives it.
        because: why it was not measured.
        diagnosis: of the run, if it was measured.
        bundle: the folder of its capture.
        seconds: that it took.
    """

    outcome: Literal["ok", "oom", "failed", "interrupted"]
    code: int = 0
    because: str = ""
    diagnosis: Diagnosis | None = None
    bundle: str = ""
    seconds: float = 0.0


Run = Callable[[int, Settings, "Mapping[str, Any] | None", float | None], EndedRun]
"""Runs the job: number of the run, what it sets, what is expected of that, seconds that it may take."""


@dataclass(frozen=True)
class JobRuns:
    """Runs of one command, each with a folder and a log of its own.

    Args:
        argv: the command to execute.
        inherited: the environment.
        folder: where bundles and logs go.
        window: the steps to capture.
    """

    argv: Sequence[str]
    inherited: Mapping[str, str]
    folder: Path
    window: CapturedSteps

    def __call__(
        self, number: int, settings: Settings, expected: Mapping[str, Any] | None, most_s: float | None
    ) -> EndedRun:
        """Run the job with the settings.

        Raises:
            OSError: it cannot be executed.
        """
        began = time.monotonic()
        bundle = Bundle(self.folder / f"run-{number}", self.inherited)
        config = replace(self.window.config(number), out=str(bundle.folder), token=bundle.token)
        request = Request(settings, (), expected) if settings else None
        log = self.folder / f"run-{number}.log"
        try:
            with log.open("wb") as file:
                env = environment(self.inherited, config, bundle.marks, request)
                job = RunningCommand(self.argv, env, stdout=file.fileno(), stderr=file.fileno())
                code, cut = _ended(job, most_s)
            ran = EndedRun("interrupted", code) if cut == "interrupted" else _outcome(bundle, log, code, cut)
        finally:
            bundle.tidy()
        return replace(ran, bundle=bundle.folder.name, seconds=time.monotonic() - began)


def _ended(job: RunningCommand, most_s: float | None) -> tuple[int, str]:
    """The exit code once the job has ended, and "interrupted" or why it was ended; "" if it ended by itself."""
    began, cut = time.monotonic(), ""
    with job.forwarding():
        while not cut and job.runs(_POLL_EVERY_S):
            if job.asked_to_end:
                cut = "interrupted"
            elif most_s is not None and time.monotonic() - began > most_s:
                cut = f"it did not end within {most_s:.0f} s"
        if cut == "interrupted":
            job.runs(_ENDS_WITHIN_S)
        if cut:
            job.end(_ENDS_WITHIN_S)
        return job.exit_code(), "interrupted" if job.asked_to_end else cut


def _outcome(bundle: Bundle, log: Path, code: int, cut: str) -> EndedRun:
    written, tail = bundle.written(), _tail(log)
    if code and (code == _KILLED or _OUT_OF_MEMORY.search(tail)):
        return EndedRun(
            "oom", code, "out of memory" if code != _KILLED else "killed, as the kernel does without memory left"
        )
    if cut or code:
        return EndedRun("failed", code, cut or f"it ended with {code}: {_last_error(tail)}")
    if not written.traces or written.missing:
        told = (*written.errors.values(), *bundle.cut().values())
        why = next(filter(None, told), "") or bundle.why_empty()
        return EndedRun("failed", code, f"nothing was captured: {printable(why)}")
    try:
        diagnosis = analysis.analyze(bundle.folder)
    except UserError as error:
        return EndedRun("failed", code, f"its capture cannot be used: {error.what}")
    return EndedRun("ok", code, diagnosis=diagnosis)


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - _LOG_BYTES, 0))
        return file.read().decode("utf-8", "replace")


def _last_error(tail: str) -> str:
    """The last line that names an error, else the last line."""
    lines = _ERROR.findall(tail) or [line for line in tail.splitlines() if line.strip()]
    return printable(lines[-1].strip())[:_LONGEST] if lines else "it printed nothing"
