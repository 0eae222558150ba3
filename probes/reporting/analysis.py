"""The analysis of a window during training: a process of its own, at the lowest priority, with one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..bundle.rank_files import RankFiles
from ..guard import described
from ..protocol import CONFIG, DONE, PIPELINE, TRACE
from ..side_thread import SideThread

RANKS_WITHIN_S = 300.0  # windows that other ranks have not written by then are left out
ENDS_WITHIN_S = 900.0
_LOOKS_EVERY_S = 1.0
_MOST_TOLD = 200
_OPTIONS = ("--json", "--no-cache", "--jobs", "1", "--low-memory", "4G")
# Without the job's folder on the path (-P): a module of the job may have the name of one that the analysis imports.
# It ends with the job however that ends: by PR_SET_PDEATHSIG of <linux/prctl.h>, if the system has it.
_PROGRAM = """
import ctypes, os, runpy
os.nice(19)
try:
    ctypes.CDLL(None).prctl(1, ctypes.c_ulong(9))
except (AttributeError, OSError):
    pass
if os.getppid() != {}:
    raise SystemExit("the job has ended")
runpy.run_module('diagnose', run_name='__main__', alter_sys=True)
"""


class WindowAnalysis:
    """The result of `diagnose analyze --json` on the window in `folder`, once all `ranks` ranks have written.

    A window of which rank 0 recorded nothing has neither a diagnosis nor a failure: the capture has reported why.

    Everything but `_run` and what it calls is for the thread that creates it.

    Attributes:
        ended: nothing more comes.
        diagnosis: the JSON object.
        failure: why there is none, in one line.

    Raises:
        RuntimeError: no thread can be had.
    """

    def __init__(self, folder: Path, ranks: int) -> None:
        self.folder, self._ranks = folder, ranks
        self.diagnosis: dict[str, Any] | None = None
        self.failure = ""
        self.ended = False
        self._given_up = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = SideThread(self._run)

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end, no longer than so; whether it has come."""
        return self.ended or self._thread.stop(seconds)

    def give_up(self) -> None:
        """End its process, since nobody waits for it any more."""
        self._given_up = True
        if self._process is not None:
            self._process.kill()

    def _begun(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        if self._given_up:
            process.kill()

    def _run(self, thread: SideThread) -> None:
        try:
            patience = time.monotonic() + RANKS_WITHIN_S
            while not self._given_up and not self._all_written() and time.monotonic() < patience:
                thread.wait(_LOOKS_EVERY_S)
            if not self._given_up and (self.folder / TRACE.format(0)).exists():
                self.diagnosis = analysed(self.folder, self._begun)
        except BaseException as error:
            self.failure = described(error)
        finally:
            self.ended = True

    def _all_written(self) -> bool:
        return all((self.folder / DONE.format(rank)).exists() for rank in range(self._ranks))


class Windows:
    """The windows that are `written` from now on, analysed one after another; all is for the thread that looks."""

    def __init__(self, written: list[RankFiles]) -> None:
        self._written, self._seen = written, len(written)
        self.analysis: WindowAnalysis | None = None

    @property
    def are_due(self) -> bool:
        """Whether an analysis runs or is to begin."""
        return self.analysis is not None or self._seen < len(self._written)

    def look(self) -> WindowAnalysis | None:
        """The analysis that has ended since the last look; the next one begins where none runs.

        Raises:
            RuntimeError: no thread can be had.
        """
        ended = self.analysis if self.analysis is not None and self.analysis.ended else None
        if ended is not None:
            self.analysis = None
        while self.analysis is None and self._seen < len(self._written):
            files = self._written[self._seen]
            self._seen += 1
            if files.rank == 0:
                self.analysis = WindowAnalysis(files.folder, files.world_size)
        return ended

    def give_up(self) -> None:
        """End the analysis that runs."""
        if self.analysis is not None:
            self.analysis.give_up()
            self.analysis = None


def analysed(folder: Path, begun: Callable[[subprocess.Popen[bytes]], object]) -> dict[str, Any]:
    """The diagnosis of a folder of traces, as `diagnose analyze --json` prints it; `begun` receives its process.

    Raises:
        RuntimeError: it failed; the message is its own.
        OSError: no process can be had.
        subprocess.TimeoutExpired: it took too long.
        ValueError: what it printed is no JSON.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM.format(os.getpid()), "analyze", str(folder), *_OPTIONS],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
    ) as process:
        try:
            begun(process)
            out, err = process.communicate(timeout=ENDS_WITHIN_S)
        except BaseException:
            process.kill()
            raise
    if not out:  # the exit code is also that of --fail-on, which the job's settings may ask for
        said = err.decode(errors="replace").strip().splitlines() or [f"it ended with {process.returncode}"]
        raise RuntimeError(said[-1 if said[0].startswith("Traceback") else 0][:_MOST_TOLD])
    diagnosis = json.loads(out)
    if not isinstance(diagnosis, dict):
        raise ValueError("diagnose analyze printed no JSON object")
    return diagnosis


def _environment() -> dict[str, str]:
    """The job's environment without the variables of a capture; numpy takes one core."""
    kept = {name: value for name, value in os.environ.items() if name not in (CONFIG, PIPELINE)}
    return kept | {"OMP_NUM_THREADS": "1"}
