"""Loaded traces kept on disk, so that a trace is parsed once however often it is analysed.

An entry is named by a hash of the file's whole content and one of the loader's own code: a changed trace or another
version of the loader finds nothing, a copy of the trace elsewhere finds its entry. Entries appear under their name only
when they are complete. An entry that cannot be used is as good as none.

Only the user's own are believed: a folder or an entry that belongs to another, or that others may write to, is not
used. And only our own are removed: files that are named like entries, belong to the user and begin or end as entries
do, since the folder may hold files of the user's.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from diagnose.trace.columns import Trace
from diagnose.trace.contents import SETTLED_AFTER_NS, Contents, State, state_of
from diagnose.trace.ownership import is_users_alone, own_file
from diagnose.trace.packing import MARK, Corrupt, is_marked, pack, unpack
from diagnose.trace.scanning import reader_in_use
from diagnose.trace.source import BOMB_BYTES, BOMB_RATIO, fast_zlib

SMALLEST_FILE_BYTES = 1 << 18
SMALLEST_TEXT_BYTES = 8 << 20  # below, parsing takes a tenth of a second
LARGEST_BYTES = 4 << 30
_LEFT_FREE_BYTES = 2 << 30
_SEGMENT_BYTES = 16 << 20
_PIECE_BYTES = 1 << 20
_SUM_BYTES = 32
_ENDING, _UNFINISHED = ".trace", ".part"
_ENTRY = re.compile(r"[0-9a-f]{40}-[0-9a-f]{16}\.trace")
_NOTE, _NOTED = re.compile(r"[0-9a-f]{40}\.diagnosis"), ".diagnosis"
_KEPT = re.compile(f"{_ENTRY.pattern}|{_NOTE.pattern}")
_MOST_NOTES, _LARGEST_NOTE_BYTES = 64, 16 << 20
_PREFIX = "diagnose-"
_PART = re.compile(r"diagnose-\w{8}\.part")
_ABANDONED_AFTER_S = 3600
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
        return f"{self.content}-{_loader(reader_in_use())}{_ENDING}"


def default_folder() -> Path:
    """`$DIAGNOSE_CACHE_DIR`, else `diagnose` in the user's cache folder."""
    if stated := os.environ.get("DIAGNOSE_CACHE_DIR"):
        return Path(stated)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "diagnose"


class Cache:
    """Entries in `folder`, `limit` bytes in all; the entries not used for longest go first."""

    def __init__(self, folder: Path, limit: int = LARGEST_BYTES) -> None:
        self.folder, self.limit = folder, limit
        self._contents = Contents(folder)

    def key(self, path: Path) -> Key | None:
        """What the content of `path` is stored under, None for a file that is too small to gain or unreadable."""
        try:
            before = state_of(path)
            if not path.is_file() or path.stat().st_size < SMALLEST_FILE_BYTES:
                return None
            settled = time.time_ns() - before[-1] > SETTLED_AFTER_NS
            content = (self._contents.of(before) if _is_own_folder(self.folder) else None) or digest(path)
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
            if not _is_own_folder(self.folder):
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
            with self._entry(key.name) as file:
                pack(trace, file)
            self._remember(key)

    def note(self, name: str) -> bytes | None:
        """What was kept under the name, 40 hexadecimal digits; None where it is not as it was written."""
        with contextlib.suppress(OSError):
            if _is_own_folder(self.folder):
                with own_file(self.folder / f"{name}{_NOTED}") as file:
                    text = file.read(_LARGEST_NOTE_BYTES + 1).removeprefix(MARK)
                    os.utime(file.fileno())
                content = text[_SUM_BYTES:]
                return content if hashlib.sha256(content).digest() == text[:_SUM_BYTES] else None
        return None

    def put_note(self, name: str, content: bytes) -> None:
        """Keeps it under the name; of many those that were not asked for longest go.

        Raises:
            OSError: it cannot be written.
        """
        if len(content) + len(MARK) + _SUM_BYTES > _LARGEST_NOTE_BYTES:
            return
        with self._entry(f"{name}{_NOTED}") as file:
            file.write(MARK + hashlib.sha256(content).digest() + content)
        notes = sorted(_own(self.folder, _NOTE), key=lambda entry: entry[1].st_mtime_ns)
        for path, _ in notes[:-_MOST_NOTES]:
            path.unlink(missing_ok=True)

    def _remember(self, key: Key) -> None:
        with contextlib.suppress(OSError):
            if key.settled:
                self._contents.remember(key.state, key.content)

    @contextlib.contextmanager
    def _entry(self, name: str) -> Iterator[BinaryIO]:
        """What is written to it appears under its name when it is complete, and there is room for it.

        Raises:
            OSError: it cannot be written, or the folder is not the user's alone.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_own_folder(self.folder):
            raise OSError("not a folder of the user's alone")
        with self._new_file() as unfinished:
            with unfinished.open("wb") as file:
                yield file
            self._make_room(unfinished.stat().st_size)
            os.replace(unfinished, self.folder / name)

    @contextlib.contextmanager
    def _new_file(self) -> Iterator[Path]:
        """A marked file of this process alone, readable by its user alone; gone unless it was given its name."""
        handle, name = tempfile.mkstemp(prefix=_PREFIX, suffix=_UNFINISHED, dir=self.folder)
        os.write(handle, MARK)
        os.close(handle)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        """Removes the entries that were not used for longest until one of `size` bytes fits."""
        self._sweep()
        entries = sorted(_own(self.folder, _KEPT), key=lambda entry: entry[1].st_mtime_ns)
        total = sum(stat.st_size for _, stat in entries)
        if size > self.limit or shutil.disk_usage(self.folder).free + total <= _LEFT_FREE_BYTES:
            raise OSError("no room")
        for path, stat in entries:
            if total + size <= self.limit and shutil.disk_usage(self.folder).free > _LEFT_FREE_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= stat.st_size
        if shutil.disk_usage(self.folder).free <= _LEFT_FREE_BYTES:
            raise OSError("no room")

    def _sweep(self) -> None:
        """Removes what processes that were killed left behind."""
        for path, stat in _own(self.folder, _PART):
            if time.time() - stat.st_mtime > _ABANDONED_AFTER_S:
                path.unlink(missing_ok=True)


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


def _is_own_folder(folder: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return is_users_alone(folder.stat())
    return False


def _own(folder: Path, named: re.Pattern[str]) -> Iterator[tuple[Path, os.stat_result]]:
    """Our own files of such a name."""
    for path in [each for each in folder.iterdir() if named.fullmatch(each.name)]:
        with contextlib.suppress(OSError), own_file(path) as file:
            if is_marked(file):
                yield path, os.fstat(file.fileno())
