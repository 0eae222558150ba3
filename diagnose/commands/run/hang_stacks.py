"""`diagnose run --hang-stacks`: record the stacks of a job that stands still while the command runs.

Stacks of other processes, read by py-spy if it is installed: from outside, without pausing the process.

It reads no values of variables and needs no rights of another user; the command line that it prints is removed.
"""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose.capture.bundle import Bundle
from diagnose.capture.standstill import RankPulse, Standstill, Watch, pulses
from diagnose.cli.near import near
from diagnose.cli.voice import say
from diagnose.cli.whole_file import whole_file
from diagnose.errors import printable
from diagnose.probes.config import Config
from diagnose.probes.protocol import HANG_DUMP, SCRATCH, STACKS
from diagnose.probes.timing.pulse import name_of

TIMED_OUT = "a call of a collective timed out"
_EVERY_S = 1.0
_MOST_RANKS = 64  # of a host


class HangStacks:
    """Checks the ranks of this host once a second, and has py-spy print their stacks if they stand still.

    Args:
        folder: of the run.
        least_s: as of `Watch`.
        program: py-spy.
    """

    failing = "no more stacks if the job hangs"

    def __init__(self, folder: Path, least_s: float, program: str) -> None:
        self.done = False
        self._folder, self._program = folder, program
        self._watch = Watch(least_s)
        self._known: Standstill | None = None
        self._written: list[Path] = []
        self._next_s = 0.0

    def look(self) -> None:
        """Record stacks if the job has just been found to stand still; remove them if it goes on.

        Raises:
            OSError: they cannot be written; no more are taken.
        """
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s, self.done = now_s + _EVERY_S, True
        ranks = pulses(self._folder / SCRATCH, platform.node()[:200], os.getpid())
        self._watch.look(now_s, ranks, sum(1 for _ in self._folder.glob(HANG_DUMP.format("*"))))
        stands, known, self._known = self._watch.stands, self._known, self._watch.stands
        if stands is not None and stands is not known:
            self._record(stands, ranks[:_MOST_RANKS])
        elif stands is None and known is not None and not known.timed_out:
            self._take_back()
        self.done = False

    def _record(self, stands: Standstill, ranks: Sequence[RankPulse]) -> None:
        seen = stacks_of(self._program, {one.rank: one.pid for one in ranks})
        for rank, one in seen.items():
            if one.text:
                file = self._folder / STACKS.format(rank)
                with whole_file(file) as into:
                    into.write(f"rank {rank}, {_when(stands)}, as py-spy saw it\n{one.text}".encode())
                self._written.append(file)
        for line in _said(stands, seen, near(self._folder)):
            say(printable(line))

    def _take_back(self) -> None:
        if self._written:
            say("the job goes on: it did not hang, and the stacks are removed")
        while self._written:
            self._written.pop().unlink(missing_ok=True)


def can_look(least_s: float | None) -> bool:
    """Whether stacks are asked for and py-spy is installed; prints a line if it is not."""
    if least_s is not None and installed() is None:
        say(f"no stacks if the job hangs: py-spy is not installed ({INSTALL})")
    return least_s is not None and installed() is not None


def itself() -> dict[str, Any] | None:
    """This command as its ranks identify a process that may read their stacks; None if the system has no /proc."""
    try:
        return name_of(os.getpid())
    except OSError:
        return None


def hang_stacks(bundle: Bundle | None, config: Config, least_s: float | None) -> HangStacks | None:
    """The watcher that runs with the command; None unless the ranks of the bundle let this command read stacks."""
    program = installed() if config.looked_at_by else None
    if bundle is None or least_s is None or program is None:
        return None
    return HangStacks(bundle.folder, least_s, program)


def _when(stands: Standstill) -> str:
    if stands.timed_out:
        return f"when {TIMED_OUT}"
    return f"{stands.for_s:,.0f} s after step {stands.step:,}"


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


def told_standstill(stands: Standstill) -> str:
    """A job that stands still, in a clause."""
    if stands.timed_out:
        return TIMED_OUT
    usual = f" (usually {stands.usual_s:.3g} s)" if stands.usual_s else ""
    return f"no step has ended for {stands.for_s:,.0f} s{usual}"


def _said(stands: Standstill, seen: dict[int, PySpyOutput], folder: str) -> list[str]:
    what = told_standstill(stands)
    have = [rank for rank, one in seen.items() if one.text]
    lines = [f"{what}; stacks of rank {_listed(have)}: diagnose hang {folder}"] if have else [what]
    refused: dict[str, list[int]] = {}
    for rank, one in seen.items():
        if one.why_not:
            refused.setdefault(one.why_not, []).append(rank)
    lines += [f"no stack of rank {_listed(ranks)}: {why}" for why, ranks in refused.items()]
    return lines if seen else [f"{what}; no stacks: no rank of this host tells its process"]


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))
