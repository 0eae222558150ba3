"""Find which files of a folder are the ranks of one job, and which belong to another run."""

import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from diagnose.errors import UserError, printable
from diagnose.trace.beginning import NOTHING_TOLD, beginning_of
from diagnose.trace.distributed import rank_in, world_size_in
from diagnose.trace.nsight import MAGIC
from diagnose.trace.parting import apart, with_windows
from diagnose.trace.runs import RankFile, TracedRun, called
from diagnose.trace.source import Source
from diagnose.trace.streams import is_stream
from diagnose.trace.windows import processes_of

SUFFIXES = (".json", ".json.gz", ".json.zst", ".sqlite")
_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)
_PART_IN_NAME = re.compile(r"(?:rank|worker|node|procid|task)[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)  # of exports
_TIMESTAMP = re.compile(r"[._-]?(\d{9,})")
_PROCESS = re.compile(r"_\d+(?=[._-]\d{9,})")  # <host>_<pid>.<time>.pt.trace.json of tensorboard_trace_handler
_PEEK_BYTES = 4 << 20
_START_BYTES = 1 << 16
_OVERLAP_BYTES = 1 << 10


def find_run(path: Path, name: str | None = None) -> TracedRun:
    """The run at `path`: a trace file, or a folder with one file for each rank.

    Raises:
        UserError: nothing there, no traces in it, several runs and no `name`, or no run called `name`.
    """
    if not path.exists():
        raise UserError("no such file or folder", where=path, do="check the path")
    if not path.is_dir():
        return called(name, [TracedRun(path.name, (_identify(path, _peek(path)),))], path)
    runs = runs_in(path)
    if not runs:
        raise UserError(
            "no traces in the folder", where=path, why="no .json, .json.gz or .zst file in it holds profiler events"
        )
    if name is None and len(runs) > 1:
        listed = "".join(f"\n       --run {printable(run.name)}  ({run.about})" for run in runs)
        why = _why_apart([file for run in runs for file in run.files])
        raise UserError(f"{len(runs)} runs in one folder", where=path, why=why, do=f"choose one:{listed}")
    return called(name, runs, path)


def runs_in(folder: Path) -> list[TracedRun]:
    """The runs whose traces are directly in `folder`, or below it when it has none itself.

    Raises:
        UserError: a file or folder cannot be read.
    """
    traces, others = _looked_into(folder)
    files, copies = _without_copies(traces)
    runs = (replace(run, copies=copies, skipped=_no_files(folder)) for run in runs_of(files))
    return [replace(run, unreadable=_unreadable(run, others)) for run in runs]


def trace_files(folder: Path) -> list[RankFile]:
    """The trace files directly in `folder`, or below it when it has none itself.

    Raises:
        UserError: a file or folder cannot be read.
    """
    return _looked_into(folder)[0]


def _looked_into(folder: Path) -> tuple[list[RankFile], list[Path]]:
    """The trace files, and the other files that are named like a trace but are none."""
    for entries in (folder.iterdir, lambda: folder.rglob("*")):
        try:
            paths = sorted(p for p in entries() if _may_be_trace(p) and p.is_file())
        except OSError as error:
            raise UserError("cannot read the folder", where=folder, why=error.strerror or str(error)) from error
        if traces := traces_among(paths):
            known = {file.path for file in traces}
            return traces, [path for path in paths if path not in known]
    return [], []


def traces_among(paths: Iterable[Path]) -> list[RankFile]:
    """The files among the paths that are traces.

    Raises:
        UserError: a file cannot be read.
    """
    starts = ((p, _peek(p)) for p in paths)
    traces = [(_identify(p, start), _may_hold_events(start)) for p, start in starts if _looks_like_trace(start)]
    traces = [(file, holds) for file, holds in traces if file.ranks]  # databases of other tools have none
    return [file for file, holds in traces if holds] or [file for file, _ in traces]  # else those without events


def _unreadable(run: TracedRun, others: Iterable[Path]) -> tuple[Path, ...]:
    """The other files that are named like the run's own, for a rank that the run does not have."""
    families, ranks = {file.family for file in run.files}, {file.rank for file in run.files}
    named = (_identify(path, b"") for path in others)
    return tuple(f.path for f in named if f.family in families and (f.rank is None or f.rank not in ranks))


def _no_files(folder: Path) -> tuple[Path, ...]:
    """Pipes, sockets and devices named like a trace: these can be read only once, so they are not opened."""
    return tuple(sorted(p for p in folder.iterdir() if _may_be_trace(p) and is_stream(p)))


def _without_copies(files: list[RankFile]) -> tuple[list[RankFile], tuple[Path, ...]]:
    """The files, and copies: those with a larger file of the same folder, rank and beginning, under any name.

    If the beginning holds no time, which would be unique to a capture, the name has to be the same too.
    """
    alike: dict[tuple[object, ...], list[RankFile]] = {}
    for f in files:
        name = None if f.is_timed else (f.family, f.stamp)
        alike.setdefault((f.path.parent, f.rank, name, f.start), []).append(f)
    kept = {
        max(group, key=lambda f: sum(map(len, Source(f.path).blocks()))) if len(group) > 1 else group[0]: None
        for group in alike.values()
    }
    return [*kept], tuple(f.path for f in files if f not in kept)


def _why_apart(files: list[RankFile]) -> str:
    if all(f.rank is None for f in files):
        pids = len({f.by.pid for f in files} - {None})
        of = f", and they are of {pids} processes" if pids > 1 else ""
        return (
            f"no file tells its rank{of}; those of one job are joined if their names do: ..._rank0.json, ..._rank1.json"
        )
    counts = Counter(f.rank for f in files if f.rank is not None)
    repeated = [str(rank) for rank, count in sorted(counts.items()) if count > 1]
    if repeated:
        return f"of rank {', '.join(repeated[:8])}{', ...' if len(repeated) > 8 else ''} there is more than one file"
    world_sizes = sorted({f.world_size for f in files if f.world_size})
    return f"they state jobs of {' and '.join(map(str, world_sizes))} ranks" if len(world_sizes) > 1 else ""


def _may_be_trace(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and not path.name.startswith(".")  # a leading dot: still being written


def runs_of(files: list[RankFile]) -> list[TracedRun]:
    """The files grouped so that no rank appears twice in a run, or in a window of one."""
    if len(files) > 1:
        files = [f if f.rank is not None else replace(f, rank=_rank_anywhere(f.path)) for f in files]
    wrote = {process.last: process for process in processes_of(files)}
    return [with_windows(run, [wrote[file] for file in run.files]) for run in apart([*wrote])]


def _identify(path: Path, start: bytes) -> RankFile:
    is_database = start.startswith(MAGIC)
    numbered = _PART_IN_NAME if is_database else _RANK_IN_NAME
    named = numbered.search(path.name)
    rank = None if is_database else rank_in(start)
    if rank is None and named:
        rank = int(named[1])
    family = numbered.sub(lambda m: m[0][: -len(m[1])] + "*", path.name)
    for suffix in reversed(SUFFIXES):
        family = family.removesuffix(suffix)
    stamps = _TIMESTAMP.findall(family)
    family = _TIMESTAMP.sub("", _PROCESS.sub("", family)).strip("._-")
    stamp = int(stamps[-1][:19]) if stamps else 0
    beginning = start[:_START_BYTES]
    return RankFile(
        path,
        rank,
        family or path.name,
        stamp,
        None if is_database else world_size_in(start),
        _checksum_of_ends(path) if is_database else zlib.crc32(beginning),
        is_database or b'"ts"' in beginning,
        _ranks_in(path) if is_database else 1,
        NOTHING_TOLD if is_database else beginning_of(path, start, is_all=len(start) < _PEEK_BYTES),
    )


def _ranks_in(export: Path) -> int:
    from diagnose.trace.nsight.exports import ranks_in  # brings SQLite

    return ranks_in(export)


def _checksum_of_ends(path: Path) -> int:
    """A checksum of both ends of a database, since the first pages of databases are much alike."""
    with path.open("rb") as file:
        begin = file.read(_START_BYTES)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _START_BYTES, 0))
        return zlib.crc32(begin + file.read() + str(size).encode())


def _peek(path: Path) -> bytes:
    """The first megabytes of the file's text."""
    text = bytearray()
    for block in Source(path).blocks():
        text += block
        if len(text) >= _PEEK_BYTES:
            break
    return bytes(text[:_PEEK_BYTES])


def _rank_anywhere(path: Path) -> int | None:
    """The rank from metadata that older exporters write behind the events."""
    text = b""
    for block in Source(path).blocks():
        text = text[-_OVERLAP_BYTES:] + block
        if (rank := rank_in(text)) is not None:
            return rank
    return None


def _may_hold_events(start: bytes) -> bool:
    """Whether the file may hold an event, or states the rank for which it has none."""
    return start.startswith(MAGIC) or b'"ph"' in start or len(start) >= _PEEK_BYTES or rank_in(start) is not None


def _looks_like_trace(text: bytes) -> bool:
    return text.startswith(MAGIC) or b'"traceEvents"' in text or (text.lstrip()[:1] == b"[" and b'"ph"' in text)
