"""Which files of a folder are the ranks of one job, and which belong to another run."""

import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from diagnose.errors import UserError, printable
from diagnose.trace.source import Source

_ENDINGS = (".json", ".json.gz")
_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_.]?(\d+)", re.IGNORECASE)
_RANK_IN_METADATA = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]{0,400}?"rank"\s*:\s*(\d+)')
_TIMESTAMP = re.compile(r"\d{9,}")
_PEEK_BYTES = 4 << 20


@dataclass(frozen=True)
class RankFile:
    """One trace file; `rank` is None when neither its metadata nor its name tells."""

    path: Path
    rank: int | None
    family: str
    stamp: int


@dataclass(frozen=True)
class Run:
    """The trace files of one job, by rank."""

    name: str
    files: tuple[RankFile, ...]


def find_run(path: Path, name: str | None = None) -> Run:
    """The run at `path`: a trace file, or a folder with one file for each rank.

    Raises:
        UserError: nothing there, no traces in it, several runs and no `name`, or no run called `name`.
    """
    if not path.exists():
        raise UserError("no such file or folder", where=path, do="check the path")
    if not path.is_dir():
        return Run(path.name, (_identify(path),))
    runs = runs_of(trace_files(path))
    if not runs:
        raise UserError(
            "no traces in the folder", where=path, why="no .json or .json.gz file in it holds profiler events"
        )
    if name is not None:
        return _called(name, runs, path)
    if len(runs) > 1:
        listed = "".join(f"\n       --run {printable(r.name)}  ({len(r.files)} file(s))" for r in runs)
        raise UserError(f"{len(runs)} runs in one folder", where=path, do=f"choose one:{listed}")
    return runs[0]


def trace_files(folder: Path) -> list[RankFile]:
    """The trace files directly in `folder`, or below it when it has none itself."""
    for found in (folder.iterdir(), folder.rglob("*")):
        files = sorted(p for p in found if p.name.endswith(_ENDINGS) and p.is_file())
        traces = [_identify(p) for p in files if _looks_like_trace(p)]
        if traces:
            return traces
    return []


def runs_of(files: list[RankFile]) -> list[Run]:
    """The files grouped so that no rank appears twice in a run."""
    if len(files) < 2:
        return [Run(f.path.name, (f,)) for f in files]
    ranks = [f.rank for f in files]
    if None not in ranks and len(set(ranks)) == len(ranks):
        return [Run(files[0].path.parent.name, _by_rank(files))]
    runs = []
    for family in sorted({f.family for f in files}):
        members = [f for f in files if f.family == family]
        runs += _split_repeats(family, members)
    return runs


def _split_repeats(family: str, members: list[RankFile]) -> list[Run]:
    by_rank: dict[int | None, list[RankFile]] = {}
    for file in sorted(members, key=lambda f: (f.stamp, f.path.name)):
        by_rank.setdefault(file.rank, []).append(file)
    depth = max(len(v) for v in by_rank.values())
    takes = [[files[i] for files in by_rank.values() if i < len(files)] for i in range(depth)]
    if depth == 1:
        return [Run(family, _by_rank(takes[0]))]
    return [Run(f"{family}@{i + 1}", _by_rank(take)) for i, take in enumerate(takes)]


def _by_rank(files: list[RankFile]) -> tuple[RankFile, ...]:
    return tuple(sorted(files, key=lambda f: (f.rank is None, f.rank or 0, f.path.name)))


def _called(name: str, runs: list[Run], path: Path) -> Run:
    for run in runs:
        if run.name == name:
            return run
    names = ", ".join(printable(r.name) for r in runs)
    raise UserError(f"no run called {printable(name)!r}", where=path, do=f"choose one of: {names}")


def _identify(path: Path) -> RankFile:
    named = _RANK_IN_NAME.search(path.name)
    rank = _rank_in(_peek(path))
    if rank is None and named:
        rank = int(named[1])
    family = _RANK_IN_NAME.sub(lambda m: m[0][: -len(m[1])] + "*", path.name)
    for ending in reversed(_ENDINGS):
        family = family.removesuffix(ending)
    stamps = _TIMESTAMP.findall(family)
    return RankFile(path, rank, _TIMESTAMP.sub("", family).strip("._-") or path.name, int(stamps[-1]) if stamps else 0)


def _peek(path: Path) -> bytes:
    return b"".join(islice(Source(path).blocks(), _PEEK_BYTES // (2 << 20)))


def _rank_in(text: bytes) -> int | None:
    match = _RANK_IN_METADATA.search(text)
    return int(match[1]) if match else None


def _looks_like_trace(path: Path) -> bool:
    text = _peek(path)
    return b'"traceEvents"' in text or (text.lstrip()[:1] == b"[" and b'"ph"' in text)
