"""Findings of `diagnose run --arm --on-finding` while the job runs: by the logs, windows and pulses of its ranks."""

import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from diagnose.capture.bundle import written_in
from diagnose.capture.standstill import WITHOUT_USUAL_S, Standstill, Watch, pulses
from diagnose.commands.run.on_finding import EVERY_S, FindingCommand
from diagnose.probes.protocol import HANG_DUMP, SCRATCH, WINDOW_FOLDER

if TYPE_CHECKING:
    from diagnose.commands.run.answer import RunFinding

_PULSES_EVERY_S = 1.0
_OF_THE_TIME = 0.05  # that judging takes at most: the job goes on beside it


class StandstillFindings:
    """Passes on that the job stands still.

    Args:
        folder: of the run.
        least_s: as of `Watch`; None for as long as the first steps may take.
        command: of --on-finding.
    """

    failing = "no finding if the job hangs"

    def __init__(self, folder: Path, least_s: float | None, command: FindingCommand) -> None:
        self.done = False
        self._folder, self._command = folder, command
        self._watch = Watch(WITHOUT_USUAL_S if least_s is None else least_s)
        self._next_s = 0.0

    def look(self) -> None:
        """Read the pulses of this host's ranks once a second; a failure ends that."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s, self.done = now_s + _PULSES_EVERY_S, True
        ranks = pulses(self._folder / SCRATCH, platform.node()[:200], os.getpid())
        self._watch.look(now_s, ranks, sum(1 for _ in self._folder.glob(HANG_DUMP.format("*"))))
        if self._watch.stands is not None:
            from diagnose.commands.run.findings import of_standstill

            self._command.tell([of_standstill(self._watch.stands, self._folder)])
        self.done = False


def timed_out(folder: Path) -> "Iterator[RunFinding]":
    """The finding of a run of which a call of a collective has timed out."""
    from diagnose.commands.run.findings import of_standstill

    yield of_standstill(Standstill(None, 0.0, 0.0, timed_out=True), folder)


class RunFindings:
    """Passes on what logs and windows show: stalls, late ranks, leaks, and the verdict of each window.

    Args:
        folder: of the run.
        command: of --on-finding.
    """

    failing = "no findings while the job runs"

    def __init__(self, folder: Path, command: FindingCommand) -> None:
        self.done = False
        self._folder, self._command = folder, command
        self._judged: set[str] = set()
        self._next_s = time.monotonic() + EVERY_S

    def look(self) -> None:
        """Judge the logs so far and a window that is complete, the more seldom the longer that takes.

        Raises:
            UserError: a log or a trace cannot be read; that ends it.
        """
        began_s = time.monotonic()
        if began_s < self._next_s:
            return
        self.done = True
        self._command.tell(self._of_logs())
        if (window := self._next_window()) is not None:
            self._judged.add(window.name)
            self._command.tell(self._of_window(window))
        ended_s = time.monotonic()
        self._next_s = ended_s + max(EVERY_S, (ended_s - began_s) / _OF_THE_TIME)
        self.done = False

    def _of_logs(self) -> "Iterator[RunFinding]":
        from diagnose.commands.armed.answer import armed_run
        from diagnose.commands.run.findings import of_armed

        found = armed_run(self._folder, with_windows=False)
        return iter(()) if found is None else of_armed(found, self._folder)

    def _of_window(self, window: Path) -> "Iterator[RunFinding]":
        from diagnose import analysis
        from diagnose.commands.run.findings import of_diagnosis

        return of_diagnosis(analysis.analyze(window), self._folder, window.name)

    def _next_window(self) -> Path | None:
        """A window that was not judged yet, and that all ranks have written."""
        windows = (path for path in self._folder.glob(WINDOW_FOLDER.format("*")) if path.name not in self._judged)
        whole = (path for path in windows if (written := written_in(path)).traces and written.complete)
        return next(whole, None)
