"""Several traces loaded at once, each by a Python process of its own that hands its columns over in a packed file.

They are plain subprocesses: nothing of the caller is forked or imported again, so a script needs no guard around its
main code, and the memory of a process is that of its one trace.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnose.errors import UserError
from diagnose.trace.columns import Trace
from diagnose.trace.packing import Corrupt, pack, unpack
from diagnose.trace.reader import read

MOST_BY_DEFAULT = 4
WORTHWHILE_TEXT_BYTES = 64 << 20  # below, a process starts for longer than it would save
_PACKED_RATIO = 12  # text bytes of a byte of a compressed trace, roughly
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from diagnose.trace.workers import work; work()"


@dataclass(frozen=True)
class _Worker:
    path: Path
    packed: Path
    process: subprocess.Popen[bytes]


def worthwhile(paths: Sequence[Path]) -> int:
    """How many processes to load the traces with: one, unless there are several that take long."""
    text = 0
    for path in paths:
        with contextlib.suppress(OSError):
            text += path.stat().st_size * (1 if path.suffix == ".json" else _PACKED_RATIO)
    return max(min(_idle_cpus(), MOST_BY_DEFAULT, len(paths)), 1) if text >= WORTHWHILE_TEXT_BYTES else 1


def _idle_cpus() -> int:
    """A process that shares a core with another gains nothing and pays for handing its columns over."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        return cpus - int(os.getloadavg()[0])
    except (OSError, AttributeError):
        return cpus


def parsed_by_workers(paths: Sequence[Path], jobs: int) -> Iterator[Trace]:
    """The traces in the order of `paths`, at most `jobs` of them being parsed or waiting at any time.

    Raises:
        UserError: as `read` does.
    """
    with tempfile.TemporaryDirectory(prefix="diagnose-") as folder, contextlib.ExitStack() as running:
        workers: list[_Worker] = []
        left = list(enumerate(paths))
        while left or workers:
            while left and len(workers) < jobs:
                number, path = left.pop(0)
                workers.append(_start(path, Path(folder) / str(number)))
                running.callback(_stop, workers[-1].process)
            yield _finished(workers.pop(0))


def work() -> None:
    """What a worker does: reads the trace its command line names into the packed file it names."""
    path, packed = Path(sys.argv[2]), Path(sys.argv[3])
    try:
        trace = read(path)
    except UserError as error:
        told = {"what": error.what, "where": None if error.where is None else str(error.where)}
        sys.stdout.write(json.dumps(told | {"why": error.why, "do": error.do}))
        return
    with packed.open("wb") as file:
        pack(trace, file)


def _start(path: Path, packed: Path) -> _Worker:
    command = [sys.executable, "-c", _START, json.dumps(sys.path), str(path), str(packed)]
    return _Worker(path, packed, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))


def _finished(worker: _Worker) -> Trace:
    said, _ = worker.process.communicate()
    if said and worker.process.returncode == 0:
        raise UserError(**json.loads(said))
    try:
        with worker.packed.open("rb") as file:
            return unpack(file, str(worker.path))
    except (OSError, Corrupt):  # it was killed, or the disk is full: nothing is lost but its time
        return read(worker.path)
    finally:
        worker.packed.unlink(missing_ok=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
