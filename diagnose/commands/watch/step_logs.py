"""The step logs of a run as they grow: each is read again where it has changed, never locked and never waited for."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from diagnose.errors import UserError
from diagnose.facts import duration
from diagnose.probes.protocol import STEP_LOG, rank_in
from diagnose.probes.timing.step_log import is_written
from diagnose.series.places import step_logs
from diagnose.series.timing_log import TimingLog, read_timing_log

_AHEAD_S = 60.0  # of this machine's clock: two clocks differ by less


class SeenLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log as it was last read; None if it never could be, and `problem` says why.

    `quiet_s` are the seconds since it last changed, `is_written` whether a process holds it open to write; None if the
    system does not say.
    """

    path: Path
    rank: int
    log: TimingLog | None
    problem: str
    quiet_s: float
    is_written: bool | None


class StepLogs:
    """The logs in `folder`, also one that is no longer there; `clock` gives seconds that nobody sets."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._clock = folder, clock
        self._files: dict[Path, _StepLogFile] = {}

    def read(self) -> list[SeenLog]:
        """The logs by rank; one that cannot be read has a problem, and what was read of it before."""
        for path in step_logs(self._folder):
            if path not in self._files:
                self._files[path] = _StepLogFile(path, self._clock)
        return sorted((file.look() for file in self._files.values()), key=lambda seen: seen.rank)


class _StepLogFile:
    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._version: tuple[int, ...] | None = None
        self._size: int | None = None
        self._changed_s = clock()
        self._log: TimingLog | None = None
        self._problem = ""

    def look(self) -> SeenLog:
        """Ask who writes, then read: if nobody did by then, what is read is all that comes."""
        written = is_written(str(self._path))
        try:
            self._follow(os.stat(self._path))
        except OSError as error:
            self._version, self._problem = None, error.strerror or str(error)
        return SeenLog(
            path=self._path,
            rank=rank_in(self._path.name, STEP_LOG) or 0,
            log=self._log,
            problem=self._problem,
            quiet_s=self._clock() - self._changed_s,
            is_written=written,
        )

    def _follow(self, status: os.stat_result) -> None:
        """Read what has changed. Growth is timed here: a write that fails may change the file's own time.

        The first look has only that.
        """
        version = status.st_ino, status.st_size, status.st_mtime_ns
        if version == self._version:
            return
        age_s = time.time() - status.st_mtime if self._size is None else 0.0
        if status.st_size != self._size:
            self._changed_s = self._clock() - max(age_s, 0.0)
        self._version, self._size = version, status.st_size
        try:
            self._log, self._problem = read_timing_log(self._path), ""
        except UserError as error:
            self._problem = error.why or error.what
        if age_s < -_AHEAD_S:
            self._problem = f"it changed {duration(-age_s * 1e9)} ahead of this machine's clock"
