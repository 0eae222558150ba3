"""The windows of a process: traces that one process wrote one after the other.

The handler of torch's profiler names a file after host, process and time, or after the worker and the time. Its files
of one process are windows. Files with other names are windows if one process wrote them all and the numbers of the
profiler's steps count on from one to the next.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from diagnose.trace.runs import RankFile

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class TracedProcess:
    """The traces of one process in order of time."""

    files: tuple[RankFile, ...]

    @property
    def last(self) -> RankFile:
        """The trace of its last window."""
        return self.files[-1]

    @property
    def is_cut(self) -> bool:
        """Whether the training ended in the last window: it has fewer steps than the others, which are alike."""
        *earlier, last = (len(file.by.steps) for file in self.files)
        return self.last.by.is_all and len(set(earlier)) == 1 and last < earlier[0]


def processes_of(files: Iterable[RankFile]) -> list[TracedProcess]:
    """The processes that wrote the files, in the order of their first files."""
    alike: dict[tuple[object, ...], list[RankFile]] = {}
    for file in files:
        alike.setdefault(_key(file), []).append(file)
    return [process for group in alike.values() for process in _within(sorted(group, key=in_time))]


def _within(files: Sequence[RankFile]) -> list[TracedProcess]:
    """The processes among files of one number and host, in order of time, whose names differ in numbers at most."""
    workers = dict.fromkeys(map(_worker, files))
    if _count_on(files) or (len(workers) == 1 and files[0].by.worker):
        return [TracedProcess(tuple(files))]
    if len(workers) == 1:
        return [TracedProcess((file,)) for file in files]
    return [each for worker in workers for each in _within([file for file in files if _worker(file) == worker])]


def _worker(file: RankFile) -> tuple[Path, str]:
    """The folder that a handler fills and the name that it gives there; "" of another writer's file."""
    return file.path.parent, file.by.worker


def in_time(file: RankFile) -> tuple[int, int, str]:
    """The order of files in time."""
    return file.by.ns, file.stamp, str(file.path)


def together(
    files: Iterable[RankFile], of: Callable[[RankFile], Hashable], *, by_steps: bool
) -> list[tuple[RankFile, ...]]:
    """The files that belong together, of each process or rank one, in the order of time.

    Args:
        files: those of several processes or ranks.
        of: the process or rank of a file; the one with the most files has one in most groups, and each other file goes
            to the nearest in time of these that has none of its own.
        by_steps: whether files with different steps of the profiler are never together.
    """
    own: dict[Hashable, list[RankFile]] = {}
    for file in sorted(files, key=in_time):
        own.setdefault(of(file), []).append(file)
    most, *others = sorted(own.values(), key=len, reverse=True)
    groups = [{of(file): file} for file in most]
    for file in (file for each in others for file in each):
        free = [group for group in groups if of(file) not in group]
        fitting = [group for group in free if not by_steps or _agree(file, next(iter(group.values())))]
        if fitting:
            min(fitting, key=lambda group: abs(_moment(next(iter(group.values()))) - _moment(file)))[of(file)] = file
        else:
            groups.append({of(file): file})
    return [tuple(group.values()) for group in sorted(groups, key=lambda group: min(map(in_time, group.values())))]


def _moment(file: RankFile) -> int:
    return file.by.ns or file.stamp


def _key(file: RankFile) -> tuple[object, ...]:
    """All that the windows of a process share; the file alone if its process is unknown."""
    by = file.by
    if by.pid is None or file.ranks > 1:
        return (file.path,)
    return _DIGITS.sub("*", str(file.path)), file.rank, by.host, by.pid


def _count_on(files: Sequence[RankFile]) -> bool:
    known = all(file.by.steps and file.by.ns for file in files)
    return known and all(max(a.by.steps) < min(b.by.steps) for a, b in pairwise(files))


def _agree(one: RankFile, other: RankFile) -> bool:
    """Whether two files may be of one window, by the profiler's steps in them."""
    return not one.by.steps or not other.by.steps or bool(one.by.steps & other.by.steps)
