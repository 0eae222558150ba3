"""Loaded traces kept on disk, so that a trace is parsed once however often it is analysed.

An entry is named by a hash of the file's whole content, its size, and a hash of the loader's own code: a changed trace
or another version of the loader finds nothing, a copy of the trace elsewhere finds its entry.
"""

import contextlib
import copy
import functools
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from diagnose.trace.background import in_background
from diagnose.trace.cache_folder import ENDING, LARGEST_BYTES, CacheFolder, is_own_folder
from diagnose.trace.columns import Trace
from diagnose.trace.contents import SETTLED_AFTER_NS, Contents, State, state_of
from diagnose.trace.ownership import own_file
from diagnose.trace.packing import Corrupt, pack, unpack
from diagnose.trace.scanning import reader_in_use
from diagnose.trace.source import BOMB_BYTES, BOMB_RATIO, fast_zlib

if TYPE_CHECKING:
    from concurrent.futures import Future

SMALLEST_FILE_BYTES = 1 << 18
SMALLEST_TEXT_BYTES = 8 << 20  # below, parsing takes a tenth of a second
_SEGMENT_BYTES = 16 << 20
_PIECE_BYTES = 1 << 20
_MOST_THREADS = 4
_LOADED_BY = ("trace", "formulas/kineto.py", "decoding/__init__.py", "arrays.py")


@dataclass(frozen=True)
class Key:
    """The content of a file, as the hash from `hashed`; `state` shows whether the file has been written to since.

    `settled` is whether nothing had written to it for a while before it is hashed. `is_new` is whether no file of its
    size has an entry, so that this one has none either; it is then hashed on demand.
    """

    hashed: Callable[[], str]
    state: State
    settled: bool
    is_new: bool

    @property
    def content(self) -> str:
        """A hash of it.

        Raises:
            OSError: the file cannot be read.
        """
        return self.hashed()

    @property
    def name(self) -> str:
        """The name of its entry."""
        return f"{self.content}-{_kind(self.state)}"


class Cache(CacheFolder):
    """The traces in a folder."""

    def __init__(self, folder: Path, limit: int = LARGEST_BYTES) -> None:
        super().__init__(folder, limit)
        self._contents = Contents(folder)

    def key(self, path: Path) -> Key | None:
        """The key of the content of `path`, None for a file that is unreadable or too small to gain."""
        try:
            before = state_of(path)
            if not path.is_file() or path.stat().st_size < SMALLEST_FILE_BYTES:
                return None
            key = self._key(path, before)
            return key if key.is_new or (key.content and state_of(path) == before) else None
        except OSError:
            return None

    def _key(self, path: Path, state: State) -> Key:
        settled = time.time_ns() - state[-1] > SETTLED_AFTER_NS
        if known := self._contents.of(state) if is_own_folder(self.folder) else None:
            return Key(lambda: known, state, settled, is_new=False)
        is_new = not any(self.folder.glob(f"*-{_kind(state)}"))
        hashed = functools.partial(digest, path, 1 if is_new else min(_MOST_THREADS, os.cpu_count() or 1))
        return Key(functools.cache(hashed), state, settled, is_new)

    def has(self, key: Key) -> bool:
        """Whether there is an entry, sound or not."""
        return not key.is_new and (self.folder / key.name).is_file()

    def get(self, key: Key, path: Path) -> Trace | None:
        """The stored trace as if it had been read from `path`."""
        entry = self.folder / key.name
        try:
            if not is_own_folder(self.folder):
                return None
            with own_file(entry) as file:
                trace = unpack(file, str(path), max(BOMB_BYTES, BOMB_RATIO * key.state[2]))
                os.utime(file.fileno())
            self._remember(key)
        except (OSError, Corrupt, MemoryError):
            return None
        return trace

    def put(self, key: Key, path: Path, trace: Trace) -> None:
        """Stores the trace read from `path`, unless it is small, the file changed meanwhile, or there is no room."""
        if trace.size < SMALLEST_TEXT_BYTES:
            return
        with contextlib.suppress(OSError, ValueError, RecursionError, MemoryError):
            if state_of(path) != key.state:
                return
            with self.entry(key.name) as file:
                pack(trace, file)
            self._remember(key)

    @contextlib.contextmanager
    def keeping(self, key: Key, path: Path) -> Iterator[Callable[[Trace], None]]:
        """Store the trace that the block hands over, in a thread, which hashes the file in the meantime.

        The block's further work with the trace runs in parallel to the storing. A block that fails does not wait.
        """
        from concurrent.futures import Future  # small traces are not kept

        handed: Future[Trace] = Future()
        stored = in_background(functools.partial(self._keep, key, path, handed))
        try:
            yield lambda trace: handed.set_result(_as_read(trace))
        except BaseException:
            handed.cancel()
            raise
        if handed.done():
            self._keep(key, path, handed) if stored is None else stored.result()

    def _keep(self, key: Key, path: Path, handed: "Future[Trace]") -> None:
        with contextlib.suppress(OSError):
            key.hashed()
            self.put(key, path, handed.result())

    def _remember(self, key: Key) -> None:
        with contextlib.suppress(OSError):
            if key.settled:
                self._contents.remember(key.state, key.content)


def _as_read(trace: Trace) -> Trace:
    """The same trace, apart from losses that its users add."""
    return replace(trace, loss=copy.deepcopy(trace.loss))


def digest(path: Path, threads: int = 1) -> str:
    """A hash of the whole content of a file, made of SHA-256 hashes of its segments, which threads share."""
    segments, hashed = range(0, max(path.stat().st_size, 1), _SEGMENT_BYTES), functools.partial(_segment, path)
    if threads == 1:
        return _joined(map(hashed, segments))
    from concurrent.futures import ThreadPoolExecutor  # small traces are not hashed

    with contextlib.suppress(RuntimeError), ThreadPoolExecutor(threads) as pool:  # raised if no thread is available
        return _joined(pool.map(hashed, segments))
    return _joined(map(hashed, segments))


def _joined(hashes: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(hashes)).hexdigest()[:40]


def _segment(path: Path, begin: int) -> bytes:
    hashed, left = hashlib.sha256(), _SEGMENT_BYTES
    with path.open("rb") as file:
        file.seek(begin)
        while left and (piece := file.read(min(left, _PIECE_BYTES))):
            hashed.update(piece)
            left -= len(piece)
    return hashed.digest()


def _kind(state: State) -> str:
    """The ending of the entry names that the file may have: its size, and the reader."""
    return f"{state[2]:x}-{_loader(reader_in_use())}{ENDING}"


@functools.cache
def _loader(reader: str) -> str:
    """A hash of the code that decides what a file is read as, by which of the two readers."""
    root = Path(__file__).parent.parent
    hashed = hashlib.sha256(f"{msgspec.__version__} {fast_zlib.__name__} {reader}".encode())
    for name in _LOADED_BY:
        for path in sorted(_code_in(root / name)) if (root / name).is_dir() else [root / name]:
            hashed.update(path.read_bytes())
    return hashed.hexdigest()[:16]


def _code_in(folder: Path) -> Iterator[Path]:
    """The Python sources and the compiled modules in a folder."""
    return (path for path in folder.rglob("*") if path.suffix in (".py", ".so"))
