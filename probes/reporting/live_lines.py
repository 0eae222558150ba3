"""Figures of the steps of an armed loop that has no Trainer, as lines of a file; all in the thread beside the training.

Accelerate's and Lightning's loggers get those of each line, too.

A line is a JSON object: the step, the time, the figures by the names that loggers get, and for each that is not known
why. The file takes so many lines, then half as many in the same time for half as many, and so on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..bundle.rank_files import RankFiles
from ..guard import described, guarded, say
from ..machine.now import Machine
from ..protocol import LIVE
from . import figures, log_calls
from .analysis import Windows
from .live import Live

EVERY_S = 2.0
MOST = 2048  # lines; then half as many in the same time


class LiveLines:
    """Lines of the run in `folder`, from whatever thread takes the turns.

    Args:
        folder: of the run.
        written: the windows that are written, which grow.
        mark: returns the steps that the job has done, and when the last one ended; None if it is not to be counted.
        machine: returns what the process holds and how its GPU runs.
    """

    def __init__(
        self,
        folder: str,
        written: list[RankFiles],
        mark: Callable[[], tuple[int, int] | None],
        machine: Callable[[], Machine],
    ) -> None:
        self._path = os.path.join(folder, LIVE)
        self._windows, self._mark, self._live = Windows(written), mark, Live(machine=machine)
        self._begun = self._failed = False
        self._every_s, self._lines, self._due_s = EVERY_S, 0, 0.0
        guarded(log_calls.install, "the loop's loggers get no figures")

    def turn(self) -> None:
        """Take the verdict of a window that has been analysed, and write the line that is due; nothing is raised."""
        guarded(self._look, "the window is not told")
        guarded(self._tell, "no figures of the steps")

    def close(self) -> None:
        """End an analysis that runs: nobody takes its verdict any more."""
        self._windows.give_up()

    def _look(self) -> None:
        ended = self._windows.look()
        if ended is not None and ended.diagnosis is not None:
            self._live.knows(ended.diagnosis)
            say(figures.line(ended.diagnosis))
        elif ended is not None and ended.failure:
            say(f"the window is not analysed: {ended.failure}")

    def _tell(self) -> None:
        """Write a line of the steps since the last one; one that holds steps of a window is none."""
        mark, now_s = self._mark(), time.monotonic()
        if mark is None or not self._begun:
            self._begun = mark is not None
            if mark is not None:
                self._live.begins(*mark)
            return
        if now_s < self._due_s or not self._live.is_behind(mark[0]):
            return
        self._due_s = now_s + self._every_s
        found = self._live.figures(*mark)
        if found:
            log_calls.offer(_rounded(found))
            self._write({"step": mark[0], "t": round(time.time(), 3), **_rounded(found), **self._told()})

    def _told(self) -> dict[str, object]:
        counts = self._live.counts
        return {**({"mfu_counts": counts} if counts else {}), "unknown": self._live.unknown}

    def _write(self, line: Mapping[str, object]) -> None:
        """Append the line; a failure is said once, until one is written again."""
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            try:
                os.write(file, json.dumps(line, separators=(",", ":")).encode() + b"\n")
            finally:
                os.close(file)
        except OSError as error:
            if not self._failed:
                say(f"no figures of the steps in {LIVE}: {described(error)}")
            self._failed = True
            return
        self._failed = False
        self._lines += 1
        if self._lines % MOST == 0:
            self._every_s *= 2


def _rounded(found: Mapping[str, float]) -> dict[str, Any]:
    """Six digits, whole numbers as such."""
    return {name: value if isinstance(value, int) else float(f"{value:.6g}") for name, value in found.items()}
