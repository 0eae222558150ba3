"""Load traces: from the cache if it has them, else by reading them and storing the result."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from diagnose.trace.cache import Cache
from diagnose.trace.cache_folder import default_folder
from diagnose.trace.choices import Loading
from diagnose.trace.columns import Trace
from diagnose.trace.reader import read
from diagnose.trace.scanning import reader_in_use
from diagnose.trace.source import Watch, is_packed
from diagnose.trace.vocabulary import PYTHON
from diagnose.trace.workers import parsed_by_workers, parsed_in_shares, worthwhile

_AHEAD = 2  # cores on which a second process saves less than it takes to hand its columns over
_HELD = 16  # of the memory allowed, the part that columns grow to before they are written to disk


def load(path: Path, how: Loading | None = None) -> Trace:
    """The trace at `path`.

    Raises:
        UserError: as `read` does.
    """
    (trace,) = load_all([path], how)
    return trace


def load_all(paths: Sequence[Path], how: Loading | None = None) -> Iterator[Trace]:
    """The traces at `paths`, in their order.

    Raises:
        UserError: as `read` does.
    """
    chosen = how or Loading()
    if chosen.memory_bytes is not None:
        yield from (_parsed(path, chosen) for path in paths)
        return
    cache = Cache(default_folder())
    keys = {path: cache.key(path) for path in paths} if chosen.cache else {}
    missing = [path for path in paths if not ((key := keys.get(path)) and cache.has(key))]
    jobs = worthwhile(missing) if chosen.jobs is None else chosen.jobs
    parsed = _parsed_all(missing, jobs, chosen)
    for path in paths:
        key = keys.get(path)
        trace = cache.get(key, path) if key is not None and path not in missing else None
        if trace is not None:
            yield trace
            continue
        with contextlib.nullcontext(_dropped) if key is None else cache.keeping(key, path) as keep:
            trace = next(parsed) if path in missing else _parsed(path, chosen)
            keep(trace)
            if jobs > 1 and len(missing) > 1 and chosen.watch is not None:
                chosen.watch(path, paths.index(path) + 1, len(paths))
            yield trace


def _dropped(trace: Trace) -> None:
    """Keeps nothing of a trace that is read as fast as it is found."""


def _parsed_all(paths: Sequence[Path], jobs: int, how: Loading) -> Iterator[Trace]:
    if jobs == 1 or not paths:
        yield from (_parsed(path, how) for path in paths)
    elif len(paths) == 1 and jobs == _AHEAD and reader_in_use() == "compiled":
        yield read(paths[0], _watch(paths[0], how), ahead=is_packed(paths[0]))
    elif len(paths) == 1:
        yield parsed_in_shares(paths[0], jobs, _watch(paths[0], how))
    else:
        yield from parsed_by_workers(paths, min(jobs, len(paths)))


def _parsed(path: Path, how: Loading) -> Trace:
    if how.memory_bytes is None:
        return read(path, _watch(path, how))
    left_out = frozenset[str]() if how.python_functions else frozenset(PYTHON)
    return read(path, _watch(path, how), held_bytes=how.memory_bytes // _HELD, left_out=left_out)


def _watch(path: Path, how: Loading) -> Watch | None:
    return None if how.watch is None else partial(how.watch, path)
