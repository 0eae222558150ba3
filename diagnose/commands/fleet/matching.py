"""Match rows of the accounting with jobs: one job for each row, one row for each job, no GPU-hour counted twice."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from diagnose.commands.fleet.window import FleetWindow


def _numbers(window: FleetWindow) -> str:
    return window.slurm_job


def _places(window: FleetWindow) -> str:
    return window.name


def _last_parts(window: FleetWindow) -> str:
    return window.name.rpartition("/")[2]


_NAMES: tuple[Callable[[FleetWindow], str], ...] = (_numbers, _places, _last_parts)  # the best first
_WHY = ("of no job here", "of a job that another row is of", "of several jobs here, and counted for none")


def rows_of(jobs: Mapping[str, Sequence[FleetWindow]], rows: Collection[str]) -> dict[str, str]:
    """The row of each job that has one, by the job's key.

    A row names a job by its number in Slurm, else by its place, else by the end of its place. A name of several jobs
    matches none of them.
    """
    found: dict[str, str] = {}
    left = set(rows)
    for name_of in _NAMES:
        named: dict[str, set[str]] = {}
        for key, windows in jobs.items():
            for name in {name_of(window) for window in windows} & left:
                named.setdefault(name, set()).add(key)
        for name in sorted(named):
            key = min(named[name])
            if len(named[name]) == 1 and key not in found:
                found[key] = name
        left -= named.keys()
    return found


def unused(jobs: Iterable[Sequence[FleetWindow]], rows: Iterable[str], used: Collection[str]) -> Iterator[str]:
    """Reasons why rows match no job, each with one of the rows."""
    named = Counter(name for windows in jobs for name in {name_of(one) for one in windows for name_of in _NAMES})
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row not in used:
            by_reason.setdefault(_WHY[min(named[row], 2)], []).append(row)
    for why, found in by_reason.items():
        count = f"{len(found):,} row{'' if len(found) == 1 else 's'}"
        yield f"{count} of the accounting{'' if why == _WHY[0] else f' ({found[0]})'}: {why}"
