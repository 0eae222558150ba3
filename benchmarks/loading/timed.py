"""One run of a command: its wall and processor time and the peak of its memory, or why there are none."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_LOOK_EVERY_S = 0.02
LEAST_FREE_BYTES = 1 << 29  # with less the system may end any process, or stand still
_MOST_OF_A_LINE = 160
_FOLDER = re.compile(r"(?:/[\w.+-]+)+/(?=[\w.+-])")


@dataclass(frozen=True)
class Timed:
    """Wall and CPU seconds of a command with all its processes, and the largest sum of their memory, in bytes."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Untimed:
    """Why a command has no times, and how many seconds it takes at least where it was ended for that."""

    why: str
    at_least_s: float | None = None


Outcome = Timed | Untimed


def timed(command: Sequence[str], env: Mapping[str, str], limit_s: float) -> Outcome:
    """One run; one that takes longer than the limit, or the last of the memory, is killed with its process group."""
    begin, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, env=dict(env), start_new_session=True
        )
        try:
            while True:
                peak = max(peak, sum(map(_resident, _family(process.pid))), _highest(process.pid))
                ended, status, used = os.wait4(process.pid, os.WNOHANG)
                wall = time.perf_counter() - begin
                if ended:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    break
                if wall > limit_s:
                    return Untimed(f"more than {limit_s:g} s", limit_s)
                if (free := free_bytes()) < LEAST_FREE_BYTES:
                    return Untimed(
                        f"ended: takes more than {peak / 1e9:.0f} GB of memory, {free / 1e9:.1f} GB are free"
                    )
                time.sleep(_LOOK_EVERY_S)
        finally:
            _ended(process)
        if process.returncode:
            return Untimed(f"failed: {_last_line(said, process.returncode)}")
    return Timed(wall, used.ru_utime + used.ru_stime, peak)


def free_bytes() -> int:
    """Memory that processes can take without that others lose theirs."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Neither the process nor what it started in its group runs on."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        process.wait()


def _last_line(said: IO[bytes], code: int) -> str:
    """For a cell of a table, without the folders that it names."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    said.seek(0)
    lines = said.read().decode(errors="replace").split("\n")
    line = next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {code}")
    return _FOLDER.sub("", line)[:_MOST_OF_A_LINE].replace("|", "\\|")


def _family(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        text = ""
    return [process, *(each for child in text.split() for each in _family(int(child)))]


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _highest(process: int) -> int:
    """Unlike ru_maxrss, this does not count what the process was before it became the command."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("VmHWM")), 0)
