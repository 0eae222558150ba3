"""How traces are loaded: from the cache where it has them, else read, and then stored there."""

from dataclasses import dataclass
from pathlib import Path

from diagnose.trace.cache import Cache, default_folder
from diagnose.trace.columns import Trace
from diagnose.trace.reader import read


@dataclass(frozen=True)
class Loading:
    """What the user may choose about loading. None of it changes what is loaded.

    Attributes:
        cache: whether loaded traces are kept on disk and taken from there.
    """

    cache: bool = False


def load(path: Path, how: Loading | None = None) -> Trace:
    """The trace at `path`.

    Raises:
        UserError: as `read` does.
    """
    if not (how or Loading()).cache:
        return read(path)
    cache = Cache(default_folder())
    key = cache.key(path)
    if key is None:
        return read(path)
    found = cache.get(key, path)
    if found is None:
        found = read(path)
        cache.put(key, path, found)
    return found
