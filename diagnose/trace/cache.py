"""Loaded traces kept on disk, so that a trace is parsed once however often it is analysed.

An entry is named by a hash of the file's whole content and one of the loader's own code: a changed trace or another
version of the loader finds nothing, a copy of the trace elsewhere finds its entry.
"""

import contextlib
import functools
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from diagnose.trace.cache_folder import ENDING, LARGEST_BYTES, CacheFolder, is_own_folder
from diagnose.trace.columns import Trace
from diagnose.trace.contents import SETTLED_AFTER_NS, Contents, State, state_of
from diagnose.trace.ownership import own_file
from diagnose.trace.packing import Corrupt, pack, unpack
from diagnose.trace.scanning import reader_in_use
from diagnose.trace.source import BOMB_BYTES, BOMB_RATIO, fast_zlib

SMALLEST_FILE_BYTES = 1 << 18
SMALLEST_TEXT_BYTES = 8 << 20  # below, parsing takes a tenth of a second
_SEGMENT_BYTES = 16 << 20
_PIECE_BYTES = 1 << 20
_LOADED_BY = ("trace", "formulas/kineto.py", "decoding.py", "arrays.py")


@dataclass(frozen=True)
class Key:
    """The content of a file: `state` tells whether the file has been written to since.

    `settled` tells whether nobody had written to it for a while when it was hashed.
    """

    content: str
    state: State
    settled: bool

    @property
    def name(self) -> str:
        """Of its entry."""
        return f"{self.content}-{_loader(reader_in_use())}{ENDING}"


class Cache(CacheFolder):
    """The traces in a folder."""

    def __init__(self, folder: Path, limit: int = LARGEST_BYTES) -> None:
        super().__init__(folder, limit)
        self._contents = Contents(folder)

    def key(self, path: Path) -> Key | None:
        """What the content of `path` is stored under, None for a file that is too small to gain or unreadable."""
        try:
            before = state_of(path)
            if not path.is_file() or path.stat().st_size < SMALLEST_FILE_BYTES:
                return None
            settled = time.time_ns() - before[-1] > SETTLED_AFTER_NS
            content = (self._contents.of(before) if is_own_folder(self.folder) else None) or digest(path)
            return Key(content, before, settled) if state_of(path) == before else None
        except OSError:
            return None

    def has(self, key: Key) -> bool:
        """Whether there is an entry, sound or not."""
        return (self.folder / key.name).is_file()

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

    def _remember(self, key: Key) -> None:
        with contextlib.suppress(OSError):
            if key.settled:
                self._contents.remember(key.state, key.content)


def digest(path: Path) -> str:
    """A hash of the whole content of a file, made of SHA-256 hashes of its segments, which threads share."""
    from concurrent.futures import ThreadPoolExecutor  # small traces are not hashed

    segments = range(0, max(path.stat().st_size, 1), _SEGMENT_BYTES)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads:
        hashes = threads.map(functools.partial(_segment, path), segments)
        return hashlib.sha256(b"".join(hashes)).hexdigest()[:40]


def _segment(path: Path, begin: int) -> bytes:
    hashed, left = hashlib.sha256(), _SEGMENT_BYTES
    with path.open("rb") as file:
        file.seek(begin)
        while left and (piece := file.read(min(left, _PIECE_BYTES))):
            hashed.update(piece)
            left -= len(piece)
    return hashed.digest()


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
    """What is written in Python, and what is compiled."""
    return (path for path in folder.rglob("*") if path.suffix in (".py", ".so"))
