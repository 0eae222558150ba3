"""Traces, or shares of one, loaded at once by Python processes that hand their columns over in packed files.

They are plain subprocesses: nothing of the caller is forked or imported again, so a script needs no guard around its
main code, and the memory of a process is that of its one trace or share.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from diagnose.errors import UserError
from diagnose.trace.columns import Trace
from diagnose.trace.packing import Corrupt, pack, unpack
from diagnose.trace.reader import read, read_part, trace_of
from diagnose.trace.shares import Part, Share, Unsplittable, shares_of, text_bytes
from diagnose.trace.source import Watch

MOST_BY_DEFAULT = 4
WORTHWHILE_TEXT_BYTES = 64 << 20  # below, a process starts for longer than it would save
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from diagnose.trace.workers import work; work()"


@dataclass(frozen=True)
class _Worker:
    path: Path
    share: Share | None
    packed: Path
    process: subprocess.Popen[bytes]


def worthwhile(paths: Sequence[Path]) -> int:
    """How many processes to load the traces with: one, unless they take long. A single trace is divided."""
    text = 0
    for path in paths:
        with contextlib.suppress(OSError):
            text += text_bytes(path)
    wanted = MOST_BY_DEFAULT if len(paths) == 1 else min(MOST_BY_DEFAULT, len(paths))
    return max(min(_idle_cpus(), wanted), 1) if text >= WORTHWHILE_TEXT_BYTES else 1


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


def parsed_in_shares(path: Path, jobs: int, watch: Watch | None = None) -> Trace:
    """The trace at `path`, bit for bit as `read` returns it, of which each of `jobs` processes parses a share.

    This process is one of them. A damaged file is read in one piece.

    Raises:
        UserError: as `read` does.
    """
    with tempfile.TemporaryDirectory(prefix="diagnose-") as folder, contextlib.ExitStack() as running:
        try:
            first, *others = shares_of(path, jobs)
            workers = [_start(path, Path(folder) / str(number), share) for number, share in enumerate(others)]
            for worker in workers:
                running.callback(_stop, worker.process)
            own = read_part(path, first, watch and (lambda done, size: watch(min(done * jobs, size), size)))
            parts = [own, *(_finished_part(worker) for worker in workers)]
            if watch is not None:
                watch(size := path.stat().st_size, size)
            return trace_of(parts)
        except (Unsplittable, UserError, OSError):
            pass
    return read(path, watch)


def work() -> None:
    """What a worker does: reads the trace, or the share of it, its command line names into the packed file it names."""
    path, packed, share = Path(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4])
    try:
        found = _unwrapped(read_part(path, Share(**share))) if share else read(path)
    except UserError as error:
        told = {"what": error.what, "where": None if error.where is None else str(error.where)}
        sys.stdout.write(json.dumps(told | {"why": error.why, "do": error.do}))
        return
    with packed.open("wb") as file:
        pack(found, file)


def _unwrapped(part: Part) -> Trace:
    """The part as a trace whose metadata is the rest of it."""
    about = {f.name: getattr(part, f.name) for f in fields(part) if f.name != "trace"}
    tail = None if part.tail is None else part.tail.decode("latin-1")
    return replace(part.trace, metadata=about | {"head": part.head.decode("latin-1"), "tail": tail})


def _wrapped(trace: Trace) -> Part:
    about = dict(trace.metadata)
    head, tail = about.pop("head").encode("latin-1"), about.pop("tail")
    return Part(replace(trace, metadata={}), head, None if tail is None else tail.encode("latin-1"), **about)


def _start(path: Path, packed: Path, share: Share | None = None) -> _Worker:
    stated = json.dumps(None if share is None else asdict(share))
    command = [sys.executable, "-c", _START, json.dumps(sys.path), str(path), str(packed), stated]
    return _Worker(path, share, packed, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))


def _finished(worker: _Worker) -> Trace:
    try:
        found = _handed_over(worker)
    except (OSError, Corrupt):  # it was killed, or the disk is full: nothing is lost but its time
        return read(worker.path)
    return found


def _finished_part(worker: _Worker) -> Part:
    try:
        return _wrapped(_handed_over(worker))
    except (OSError, Corrupt):
        return read_part(worker.path, worker.share)


def _handed_over(worker: _Worker) -> Trace:
    said, _ = worker.process.communicate()
    if said and worker.process.returncode == 0:
        raise UserError(**json.loads(said))
    try:
        with worker.packed.open("rb") as file:
            return unpack(file, str(worker.path), is_whole=worker.share is None)
    finally:
        worker.packed.unlink(missing_ok=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
