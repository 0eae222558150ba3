"""Find the files that a dataset reads, and how much: those that Python opens meanwhile, and those held open."""

from __future__ import annotations

import os
import site
import stat
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

from ..guard import quietly
from ..hand_over import on_audit_events
from ..introspection import attributes

MOST_FILES = 5000
_CODE = (".py", ".pyc", ".so", ".pth")
_SYSTEM = ("/proc/", "/sys/", "/dev/")
_DEPTH = 3
_INSIDE = ("dataset", "datasets", "data", "base_dataset")  # under these names datasets hold others


class ReadCounters:
    """Counts the reads of this process between `begin` and `end`.

    Attributes:
        called_bytes: by read calls of this process; None if the kernel does not count them.
        opened: how often Python opened each file of data.
    """

    def __init__(self) -> None:
        self.called_bytes: int | None = None
        self.opened: dict[str, int] = {}
        self._listens = False
        self._samples = 0
        self._began: dict[str, int] = {}

    def begin(self) -> None:
        """Count from here on."""
        self._began = io_counters()
        self._listens = True
        on_audit_events(
            self._heard, "files that are opened are not counted"
        )  # one that cannot be taken away, so that it goes deaf

    def end(self, samples: int) -> None:
        """Count no more; so many samples were loaded meanwhile."""
        self._listens, self._samples = False, samples
        after = io_counters()
        if self._began and after:
            self.called_bytes = after["rchar"] - self._began["rchar"]

    @property
    def called_per_sample(self) -> float | None:
        """Bytes of read calls for each sample; None if it is not known."""
        known = self.called_bytes is not None and self._samples > 0
        return self.called_bytes / self._samples if known and self.called_bytes is not None else None

    @property
    def opened_per_sample(self) -> float:
        """Files of data that were opened for each sample."""
        return sum(self.opened.values()) / max(self._samples, 1)

    def _heard(self, event: str, arguments: Any) -> None:
        if not self._listens or event != "open":
            return
        path, mode = arguments[0], arguments[1]
        if type(path) is bytes:
            path = os.fsdecode(path)
        if type(path) is not str or (type(mode) is str and set(mode) & set("wax+")):
            return
        if len(self.opened) < MOST_FILES and is_of_data(path):
            self.opened[path] = self.opened.get(path, 0) + 1


def io_counters() -> dict[str, int]:
    """Bytes read by this process:

    `rchar` by read calls, `read_bytes` from storage; empty if the kernel has no counts.
    """

    def read() -> dict[str, int]:
        with open("/proc/self/io", encoding="ascii") as file:
            return {name: int(count) for name, _, count in (line.partition(":") for line in file)}

    counted = quietly(read)
    return counted if isinstance(counted, dict) else {}


def is_of_data(path: str) -> bool:
    """Whether a file may be one of data: neither code nor the interpreter's own, nor made up by the kernel."""
    if path.endswith(_CODE) or path.startswith(_SYSTEM):
        return False
    real = os.path.realpath(path)
    return not real.startswith(_library_folders())


def files_of(dataset: Any, depth: int = _DEPTH) -> list[str]:
    """Files that a dataset holds open or names: mapped arrays, open files, cache files of Hugging Face's datasets."""
    found = list(dict.fromkeys(_named(dataset, depth)))
    return [path for path in found if _is_regular(path)][:MOST_FILES]


def _named(thing: Any, depth: int) -> Iterator[str]:
    yield from _cache_files(thing)
    numpy: Any = sys.modules.get("numpy")
    for name, value in list(attributes(thing).items()):
        if numpy is not None and isinstance(value, numpy.memmap):
            yield str(value.filename or "")
        elif hasattr(type(value), "fileno"):
            path = quietly(lambda file=value: os.readlink(f"/proc/self/fd/{file.fileno()}"))  # type: ignore[misc]
            yield path if isinstance(path, str) else ""
        if depth and name in _INSIDE:
            for inner in value if isinstance(value, (list, tuple)) else (value,):
                yield from _named(inner, depth - 1)


def _cache_files(thing: Any) -> Iterator[str]:
    if type(thing).__module__.partition(".")[0] != "datasets":
        return
    entries = quietly(lambda: thing.cache_files)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("filename"), str):
            yield entry["filename"]


def _is_regular(path: str) -> bool:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def _library_folders() -> tuple[str, ...]:
    global _folders
    if not _folders:
        names = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        named = [*names, *site.getsitepackages(), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
        _folders = tuple(os.path.realpath(name) + os.sep for name in named if name)
    return _folders


_folders: tuple[str, ...] = ()
