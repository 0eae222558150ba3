"""How traces are loaded: from the cache where it has them, else read, and then stored there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from diagnose.trace.cache import Cache, default_folder
from diagnose.trace.columns import Trace
from diagnose.trace.reader import read


@dataclass(frozen=True)
class Loading:
    """What the user may choose about loading. None of it changes what is loaded.

    Attributes:
        cache: whether loaded traces are kept on disk and taken from there.
        watch: told which file is read, how many of its bytes have been, and how many it has.
    """

    cache: bool = False
    watch: Callable[[Path, int, int], None] | None = None


def load(path: Path, how: Loading | None = None) -> Trace:
    """The trace at `path`.

    Raises:
        UserError: as `read` does.
    """
    chosen = how or Loading()
    if not chosen.cache:
        return _parsed(path, chosen)
    cache = Cache(default_folder())
    key = cache.key(path)
    if key is None:
        return _parsed(path, chosen)
    found = cache.get(key, path)
    if found is None:
        found = _parsed(path, chosen)
        cache.put(key, path, found)
    return found


def _parsed(path: Path, how: Loading) -> Trace:
    return read(path, None if how.watch is None else partial(how.watch, path))
