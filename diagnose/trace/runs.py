"""The runs of a folder, and the one that `--run` names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from diagnose.errors import WrongUsage, printable
from diagnose.trace.beginning import NOTHING_TOLD, Beginning, utc

_MOST_NAMED = 8


@dataclass(frozen=True)
class RankFile:
    """One trace file; `rank` is None if neither its metadata nor its name gives it, `world_size` if its start does not.

    `start` is a checksum of the beginning of its text: files of one capture that differ only in packing, or in where
    they are cut off, begin alike. `is_timed`: whether an event is in that beginning. `ranks`: number of ranks in the
    file. `by` is the process that wrote it, and when.
    """

    path: Path
    rank: int | None
    family: str
    stamp: int
    world_size: int | None = None
    start: int = 0
    is_timed: bool = False
    ranks: int = 1
    by: Beginning = NOTHING_TOLD


@dataclass(frozen=True)
class TracedWindow:
    """One of several windows of a run: the name by which it is chosen, and its files by rank.

    `is_cut`: a rank has not written it, or its recording ended before the profiler's schedule did.
    """

    name: str
    files: tuple[RankFile, ...]
    is_cut: bool = False


@dataclass(frozen=True)
class TracedRun:
    """The trace files of one job, by rank, and those left out: copies of others, and pipes, sockets and devices.

    `unreadable` are named like the files of the job, but hold no trace. If its processes wrote several windows, one
    after the other, `windows` are all of them, and `files` are those of the chosen one.
    """

    name: str
    files: tuple[RankFile, ...]
    copies: tuple[Path, ...] = ()
    skipped: tuple[Path, ...] = ()
    unreadable: tuple[Path, ...] = ()
    windows: tuple[TracedWindow, ...] = ()

    @property
    def about(self) -> str:
        """Its files, processes and times, by which a user recognises it."""
        return ", ".join(filter(None, (_counted(self), processes(self.files), _times(self))))


def called(name: str | None, runs: Sequence[TracedRun], path: Path) -> TracedRun:
    """The run or window of that name, or the only one with files in the folder of that name, or with the file of that
    name; the first run if no name is given.

    Raises:
        WrongUsage: none has that name, or several have.
    """
    if name is None:
        return runs[0]
    windows = [replace(run, name=each.name, files=each.files) for run in runs for each in run.windows]
    placed = [run for run in runs if not run.windows] + windows
    wanted = name.rstrip("/")
    for found in (
        [run for run in runs if run.name == wanted],
        [run for run in windows if run.name == wanted],
        [run for run in placed if wanted in _folders(run, path)],
    ):
        if len(found) == 1:
            return found[0]
    names = ", ".join(printable(r.name) for r in (*runs, *windows))
    raise WrongUsage(f"no run called {printable(name)!r}", where=path, do=f"choose one of: {names}")


def processes(files: Sequence[RankFile]) -> str:
    """The processes that wrote the files, and their hosts; "" if they are unknown."""
    pids = sorted({file.by.pid for file in files if file.by.pid is not None})
    hosts = sorted({file.by.host for file in files if file.by.host})
    if not pids:
        return ""
    on = f" on {' and '.join(printable(host) for host in hosts[:2])}{', ...' if len(hosts) > 2 else ''}"
    listed = ", ".join(map(str, pids[:_MOST_NAMED])) + (", ..." if len(pids) > _MOST_NAMED else "")
    return f"process{'es' if len(pids) > 1 else ''} {listed}{on if hosts else ''}"


def _counted(run: TracedRun) -> str:
    files = sum(len(each.files) for each in run.windows) or len(run.files)
    windows = f" in {len(run.windows)} windows" if run.windows else ""
    return f"{files} file{'s' * (files > 1)}{windows}"


def _times(run: TracedRun) -> str:
    files = [file for each in run.windows for file in each.files] or run.files
    times = sorted(file.by.ns for file in files if file.by.ns)
    first, last = (utc(times[0]), utc(times[-1])) if times else ("", "")
    return first if first == last or not run.windows else f"{first} to {last}"


def _folders(run: TracedRun, path: Path) -> set[str]:
    """The folder below `path` with all files of the run, if there is one, and the file itself if it is the only one."""
    folders = {file.path.parent for file in run.files}
    named = {f.path for f in run.files if len(run.files) == 1} | (folders if len(folders) == 1 else set())
    return {place.relative_to(path).as_posix() for place in named if place.is_relative_to(path) and place != path}
