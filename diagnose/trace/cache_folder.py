"""The cache folder for results from traces, which may also hold files of the user.

Entries appear under their name only when they are complete. An unusable entry counts as missing. Only the user's own
entries are trusted: a folder or an entry that belongs to another user, or that others may write to, is not used. And
only the cache's own files are removed: those that are named like entries, belong to the user and begin or end as
entries do.
"""

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from diagnose.trace.ownership import MARK, is_users_alone, own_file

LARGEST_BYTES = 4 << 30
ENDING = ".trace"
_LEFT_FREE_BYTES = 2 << 30
_SUM_BYTES = 32
_UNFINISHED = ".part"
_ENTRY = re.compile(r"[0-9a-f]{40}-[0-9a-f]{1,16}-[0-9a-f]{16}\.trace")
_NOTE = r"[0-9a-f]{{40}}\.{}"
_KEPT = re.compile(f"{_ENTRY.pattern}|{_NOTE.format('(diagnosis|rules)')}")
_MOST_NOTES, _LARGEST_NOTE_BYTES = 64, 16 << 20
_PREFIX = "diagnose-"
_PART = re.compile(r"diagnose-\w{8}\.part")
_ABANDONED_AFTER_S = 3600
Kind = Literal["diagnosis", "rules"]


def default_folder() -> Path:
    """`$DIAGNOSE_CACHE_DIR`, else `diagnose` in the user's cache folder."""
    if stated := os.environ.get("DIAGNOSE_CACHE_DIR"):
        return Path(stated)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "diagnose"


class CacheFolder:
    """Entries in `folder`, `limit` bytes in all; the entries not used for longest go first."""

    def __init__(self, folder: Path, limit: int = LARGEST_BYTES) -> None:
        self.folder, self.limit = folder, limit

    def note(self, name: str, kind: Kind) -> bytes | None:
        """The content stored under the name, 40 hexadecimal digits; None if it is missing or has changed."""
        with contextlib.suppress(OSError):
            if is_own_folder(self.folder):
                with own_file(self.folder / f"{name}.{kind}") as file:
                    text = file.read(_LARGEST_NOTE_BYTES + 1).removeprefix(MARK)
                    os.utime(file.fileno())
                content = text[_SUM_BYTES:]
                return content if hashlib.sha256(content).digest() == text[:_SUM_BYTES] else None
        return None

    def put_note(self, name: str, kind: Kind, content: bytes) -> None:
        """Keeps it under the name; of many of a kind those that were not asked for longest go.

        Raises:
            OSError: it cannot be written.
        """
        if len(content) + len(MARK) + _SUM_BYTES > _LARGEST_NOTE_BYTES:
            return
        with self.entry(f"{name}.{kind}") as file:
            file.write(MARK + hashlib.sha256(content).digest() + content)
        notes = sorted(_own(self.folder, re.compile(_NOTE.format(kind))), key=lambda entry: entry[1].st_mtime_ns)
        for path, _ in notes[:-_MOST_NOTES]:
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def entry(self, name: str) -> Iterator[BinaryIO]:
        """A file to write; it appears under its name once it is complete, after room has been made for it.

        Raises:
            OSError: it cannot be written, or the folder is not the user's alone.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_own_folder(self.folder):
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


def is_own_folder(folder: Path) -> bool:
    """Whether it is there, and the user's alone."""
    with contextlib.suppress(FileNotFoundError):
        return is_users_alone(folder.stat())
    return False


def _own(folder: Path, named: re.Pattern[str]) -> Iterator[tuple[Path, os.stat_result]]:
    """Our own files of such a name."""
    from diagnose.trace.packing import is_marked  # looking for an entry needs no arrays

    for path in [each for each in folder.iterdir() if named.fullmatch(each.name)]:
        with contextlib.suppress(OSError), own_file(path) as file:
            if is_marked(file):
                yield path, os.fstat(file.fileno())
