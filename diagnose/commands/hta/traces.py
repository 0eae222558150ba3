"""The ranks of a run as loaded traces: all of them, or one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diagnose.analysis.rank import parts_of
from diagnose.analysis.ranks import numbered
from diagnose.errors import WrongUsage
from diagnose.trace import Loading, Trace, find_run, load, load_all, on_this_machine


@contextmanager
def all_ranks(path: str | Path, run: str | None, loading: Loading) -> Iterator[dict[int, Trace]]:
    """The traces at `path` by rank; their files are at hand while the block runs.

    Raises:
        UserError: a trace cannot be read.
    """
    with on_this_machine(path) as place:
        files = numbered(find_run(place.path, run))
        by_number: dict[int, Trace] = {}
        for (_, rank), trace in zip(files, load_all([file for file, _ in files], loading), strict=True):
            by_number |= parts_of(trace, rank)
        yield by_number


@contextmanager
def one_rank(path: str | Path, run: str | None, loading: Loading, rank: int | None) -> Iterator[tuple[int, Trace]]:
    """The number and trace of one rank at `path`, the first by default; its file is at hand while the block runs.

    Raises:
        UserError: there is no such rank, or its trace cannot be read.
    """
    with on_this_machine(path) as place:
        files = numbered(find_run(place.path, run))
        by_rank = {number: file for file, number in reversed(files)}
        first = files[0][1]
        by_number = parts_of(load(by_rank.get(first if rank is None else rank, files[0][0]), loading), first)
        chosen = min(by_number) if rank is None else rank
        if chosen not in by_number:
            known = ", ".join(map(str, sorted(by_rank if len(files) > 1 else by_number)))
            raise WrongUsage(f"no rank {rank}", where=path, do=f"choose one of: {known}")
        yield chosen, by_number[chosen]
