"""The runs of a folder, and the one that `--run` names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnose.errors import WrongUsage, printable


@dataclass(frozen=True)
class RankFile:
    """One trace file; `rank` is None if neither its metadata nor its name gives it, `world_size` if its start does not.

    `start` is a checksum of the beginning of its text: files of one capture that differ only in packing, or in where
    they are cut off, begin alike. `is_timed`: whether an event is in that beginning. `ranks`: number of ranks in the
    file.
    """

    path: Path
    rank: int | None
    family: str
    stamp: int
    world_size: int | None = None
    start: int = 0
    is_timed: bool = False
    ranks: int = 1


@dataclass(frozen=True)
class TracedRun:
    """The trace files of one job, by rank, and those left out: copies of others, and pipes, sockets and devices.

    `unreadable` are named like the files of the job, but hold no trace.
    """

    name: str
    files: tuple[RankFile, ...]
    copies: tuple[Path, ...] = ()
    skipped: tuple[Path, ...] = ()
    unreadable: tuple[Path, ...] = ()


def called(name: str | None, runs: Sequence[TracedRun], path: Path) -> TracedRun:
    """The run of that name, or the only run with files in the folder of that name; the first if no name is given.

    Raises:
        WrongUsage: no run has that name, or several have.
    """
    if name is None:
        return runs[0]
    for called in (lambda run: {run.name}, lambda run: _folders(run, path)):
        found = [run for run in runs if name.rstrip("/") in called(run)]
        if len(found) == 1:
            return found[0]
    names = ", ".join(printable(r.name) for r in runs)
    raise WrongUsage(f"no run called {printable(name)!r}", where=path, do=f"choose one of: {names}")


def _folders(run: TracedRun, path: Path) -> set[str]:
    """The folder below `path` with all files of the run, if there is one, and the file itself if it is the only one."""
    folders = {file.path.parent for file in run.files}
    named = {f.path for f in run.files if len(run.files) == 1} | (folders if len(folders) == 1 else set())
    return {place.relative_to(path).as_posix() for place in named if place.is_relative_to(path) and place != path}
