"""Stacks of other processes, read by py-spy if it is installed: from outside, without pausing the process.

It reads no values of variables and needs no rights of another user; the command line that it prints is removed.
"""

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

INSTALL = "pip install py-spy"
_NAME = "py-spy"
_WITHIN_S = 60.0  # a machine that is busy, or a file system that is slow
_LARGEST = 1 << 20
_COMMAND_LINE = "Process "
_REFUSED = "permission"


@dataclass(frozen=True)
class PySpyOutput:
    """The text that py-spy printed for a process, or why it printed nothing."""

    text: str
    why_not: str = ""


def installed() -> str | None:
    """Path of py-spy: on the PATH, else in the folder of this interpreter, whose environment may not be activated."""
    beside = Path(sys.executable).parent / _NAME
    return shutil.which(_NAME) or (str(beside) if beside.is_file() else None)


def stacks_of(program: str, pids: Mapping[int, int], within_s: float = _WITHIN_S) -> dict[int, PySpyOutput]:
    """The stacks of each process, by rank; all are read at the same time, and a read that takes longer is ended.

    Args:
        program: py-spy.
        pids: the number of the process of each rank.
        within_s: seconds for all of them.
    """
    started: dict[int, subprocess.Popen[str]] = {}
    seen: dict[int, PySpyOutput] = {}
    until = time.monotonic() + within_s
    for rank, pid in pids.items():
        try:
            started[rank] = _started(program, pid)
        except OSError as error:
            seen[rank] = PySpyOutput("", error.strerror or type(error).__name__)
    for rank, process in started.items():
        try:
            out, err = process.communicate(timeout=max(until - time.monotonic(), 0.1))
            seen[rank] = _output_of(process.returncode, out, err)
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=1.0)
            seen[rank] = PySpyOutput("", f"py-spy took more than {within_s:.0f} s")
    return seen


def _started(program: str, pid: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [program, "dump", "--nonblocking", "--pid", str(pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def _output_of(code: int, out: str, err: str) -> PySpyOutput:
    lines = [line for line in out[:_LARGEST].splitlines() if not line.startswith(_COMMAND_LINE)]
    if code == 0 and any(line.startswith("Thread ") for line in lines):
        return PySpyOutput("\n".join(lines).strip("\n") + "\n")
    why = next((line.strip() for line in err.splitlines() if line.strip()), f"py-spy ended with {code}")
    if _REFUSED in err.lower():
        why = "the system lets no process look into it (ptrace); in a container: --cap-add SYS_PTRACE"
    return PySpyOutput("", why[:300])
