"""Traces, or shares of one, loaded at once by several processes that hand their columns over in packed files.

A trace, or what is left of a share, is too large for the pipe between processes; a file is mapped and checked as the
cache's files are. A lost process costs only its time: the caller then reads the file itself.
"""

import contextlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path

from diagnose.errors import UserError
from diagnose.trace.columns import Trace
from diagnose.trace.packing import Corrupt, pack, unpack
from diagnose.trace.reader import read, read_part, trace_of
from diagnose.trace.scratch import scratch_folder
from diagnose.trace.shares import ReadShare, Share, Unsplittable, shares_of, text_bytes
from diagnose.trace.source import Watch

MOST_BY_DEFAULT = 4
WORTHWHILE_TEXT_BYTES = 64 << 20  # below, a process starts for longer than it would save


@dataclass(frozen=True)
class _Task:
    """A file, or a share of it, and the path at which to pack its columns."""

    path: Path
    packed: Path
    share: Share | None = None


def worthwhile(paths: Sequence[Path]) -> int:
    """Number of processes to load the traces with: one, unless they take long. A single trace is divided."""
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
    from diagnose.trace.processes import ProcessPool

    with contextlib.ExitStack() as held:
        try:
            folder = held.enter_context(scratch_folder())
        except OSError:  # no room, or no descriptor
            yield from map(read, paths)
            return
        processes = held.enter_context(ProcessPool(_pack, jobs))
        tasks = (_Task(path, folder / str(number)) for number, path in enumerate(paths))
        pending = deque((task, processes.submit(task)) for task in islice(tasks, jobs))
        while pending:
            task, answer = pending.popleft()
            yield _finished(task, answer.result())
            pending.extend((task, processes.submit(task)) for task in islice(tasks, 1))


def parsed_in_shares(path: Path, jobs: int, watch: Watch | None = None) -> Trace:
    """The trace at `path`, bit for bit as `read` returns it, of which each of `jobs` processes parses a share.

    This process is one of them. A damaged file is read in one piece.

    Raises:
        UserError: as `read` does.
    """
    from diagnose.trace.processes import ProcessPool

    with contextlib.suppress(Unsplittable, UserError, OSError):
        first, *others = shares_of(path, jobs)
        with scratch_folder() as folder, ProcessPool(_pack, len(others)) as processes:
            tasks = [_Task(path, folder / str(number), share) for number, share in enumerate(others)]
            answers = [processes.submit(task) for task in tasks]
            mine = read_part(path, first, watch and (lambda done, size: watch(min(done * jobs, size), size)))
            parts = (_finished_part(task, answer.result()) for task, answer in zip(tasks, answers, strict=True))
            trace = trace_of([mine, *parts])
            if watch is not None:
                watch(size := path.stat().st_size, size)
            return trace
    return read(path, watch)


def _pack(task: _Task) -> UserError | str:
    """The work of a process: pack the trace, or the share; return the error if the file cannot be used, else ""."""
    try:
        columns = _unwrapped(read_part(task.path, task.share)) if task.share else read(task.path)
    except UserError as error:
        return error
    with task.packed.open("wb") as file:
        pack(columns, file)
    return ""


def _unwrapped(part: ReadShare) -> Trace:
    """The part as a trace whose metadata is the rest of it."""
    about = {f.name: getattr(part, f.name) for f in fields(part) if f.name != "trace"}
    tail = None if part.tail is None else part.tail.decode("latin-1")
    return replace(part.trace, metadata=about | {"head": part.head.decode("latin-1"), "tail": tail})


def _wrapped(trace: Trace) -> ReadShare:
    about = dict(trace.metadata)
    head, tail = about.pop("head").encode("latin-1"), about.pop("tail")
    return ReadShare(replace(trace, metadata={}), head, None if tail is None else tail.encode("latin-1"), **about)


def _finished(task: _Task, answer: UserError | str | None) -> Trace:
    try:
        return _handed_over(task, answer)
    except (OSError, Corrupt):  # the process was killed, or the disk is full
        return read(task.path)


def _finished_part(task: _Task, answer: UserError | str | None) -> ReadShare:
    try:
        return _wrapped(_handed_over(task, answer))
    except (OSError, Corrupt):
        return read_part(task.path, task.share)


def _handed_over(task: _Task, answer: UserError | str | None) -> Trace:
    if isinstance(answer, UserError):
        raise answer
    try:
        with task.packed.open("rb") as file:
            return unpack(file, str(task.path), is_whole=task.share is None)
    finally:
        task.packed.unlink(missing_ok=True)
