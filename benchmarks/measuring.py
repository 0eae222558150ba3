"""How benchmarks measure: commands in processes of their own, things that take turns, analyses that share the rules."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import IO, TypeVar
from unittest import mock

ROOT = Path(__file__).parents[1]
DIAGNOSE = (sys.executable, "-m", "diagnose")
PATIENCE_S = 3600.0
Measured = TypeVar("Measured")

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


def timed(command: Sequence[str], env: Mapping[str, str], limit_s: float, answer: IO[bytes] | None = None) -> Outcome:
    """One run; one that takes longer than the limit, or the last of the memory, is killed with its process group.

    Args:
        command: the words of it.
        env: its environment.
        limit_s: seconds that it may take.
        answer: takes what it prints to stdout, which is else forgotten.
    """
    begin, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=answer or said, stderr=said, env=dict(env), start_new_session=True)
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


def cost_of(*words: str, answer: IO[bytes] | None = None) -> Timed:
    """What a command of `diagnose` takes without a cache; the benchmark ends where it fails."""
    outcome = timed([*DIAGNOSE, *words], os.environ | {"PYTHONPATH": str(ROOT)}, PATIENCE_S, answer)
    if isinstance(outcome, Untimed):
        raise SystemExit(f"diagnose {' '.join(words)}: {outcome.why}")
    return outcome


def in_a_process(function: Callable[..., Measured], *given: object) -> Measured:
    """What the function returns in a fresh process, whose memory is its own and is given back."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *given).result()


def in_turns(kinds: Iterable[str], rounds: int, measure: Callable[[str], Measured]) -> dict[str, list[Measured]]:
    """The measurements of each kind, one in each round; every second round goes backwards, so no place is better."""
    order = list(kinds)
    found: dict[str, list[Measured]] = {kind: [] for kind in order}
    for number in range(rounds):
        for kind in order if number % 2 else reversed(order):
            found[kind].append(measure(kind))
    return found


@contextlib.contextmanager
def rules_read_once() -> Iterator[None]:
    """Analyses inside the block share the builtin rules, whose reading takes longer than a small trace's analysis."""
    from diagnose.analysis import job
    from diagnose.metrics import units
    from diagnose.rule import Rule

    load = job.load_rules
    rules = load((), units())

    def loaded(dirs: Iterable[Path], known: Mapping[str, str], *, cache: bool = False) -> tuple[Rule, ...]:
        return load(dirs, known, cache=cache) if dirs else rules

    with mock.patch.object(job, "load_rules", loaded):
        yield
