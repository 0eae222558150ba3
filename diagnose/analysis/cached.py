"""The diagnosis of an earlier analysis, valid as long as nothing has changed that an analysis reads.

An analysis reads the files in the folder of the traces, and diagnose's own code, rules and tables. Each file is
identified by its device, number, size and times; no program can set the time of the last change. Nothing is kept if the
analysis may read files elsewhere, or if one of the files changed within the last seconds before it.
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from diagnose.analysis.options import Options
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.reading import diagnosis_in
from diagnose.errors import UserError, passed_over
from diagnose.errors.defects import NOT_JUDGED
from diagnose.rule import builtin_rules
from diagnose.series.places import CHECKPOINT, is_window
from diagnose.trace import is_stream
from diagnose.trace.cache_folder import CacheFolder, default_folder
from diagnose.trace.contents import SETTLED_AFTER_NS, State, state_of
from diagnose.trace.record_fields import UNREADABLE_RECORD
from diagnose.trace.remote import reports_at
from diagnose.version import IMPORTED_NS

LEAST_BYTES = 1 << 20  # of the files in the folder: below, an analysis takes half a second
_MOST_FILES = 4096
_NOT_READ = (".html", ".md", ".png", ".svg", ".pdf")  # pages next to a trace are often written there by us
_PACKAGE = Path(__file__).parent.parent
_PASSING = (NOT_JUDGED.encode(), UNREADABLE_RECORD.encode())  # another analysis may do without

States = dict[str, State]


class _Read(msgspec.Struct, frozen=True):
    """Everything that an analysis depends on: files by their states, and the stated options."""

    code: States
    folder: States
    stated: tuple[str, ...]

    @property
    def name(self) -> str:
        """A name that is the same for the same content."""
        told = repr((sorted(self.code.items()), sorted(self.folder.items()), self.stated))  # names may be no UTF-8
        return hashlib.sha256(told.encode()).hexdigest()[:40]

    def settled(self, at_ns: int) -> bool:
        """Whether no file of the folder was written to just before."""
        return max(state[-1] for state in self.folder.values()) < at_ns - SETTLED_AFTER_NS


class Kept(msgspec.Struct, frozen=True):
    """The cache entry of one analysis: of a path, as it is typed, with options."""

    path: str | Path
    options: Options
    read: _Read
    begun_ns: int
    unread: int

    @classmethod
    def of(cls, path: str | Path, options: Options) -> "Kept | None":
        """The entry for this path and these options; None if the result may depend on more than the files checked."""
        begun_ns, unread = time.time_ns(), passed_over()
        with contextlib.suppress(OSError, ValueError):
            if _is_plain(options) and not _is_elsewhere(path) and (read := _read(Path(path), options)) is not None:
                return cls(path, options, read, begun_ns, unread)
        return None

    def diagnosis(self) -> Diagnosis | None:
        """The diagnosis of an earlier analysis; None if there is none that can be read."""
        content = CacheFolder(default_folder()).note(self.read.name, "diagnosis")
        with contextlib.suppress(UserError):
            return diagnosis_in(content, Path(self.path)) if content else None
        return None

    def keep(self, diagnosis: Diagnosis) -> None:
        """Store the diagnosis if the files have not changed since it began, and if it reads back as it was written."""
        with contextlib.suppress(OSError, ValueError, UserError):
            content = diagnosis.to_json().encode()
            if (
                self.read.settled(self.begun_ns)
                and passed_over() == self.unread
                and not any(passing in content for passing in _PASSING)
                and self._holds(diagnosis.trace.files)
                and _read(Path(self.path), self.options) == self.read
                and diagnosis_in(content, Path(self.path)).to_json().encode() == content
            ):
                CacheFolder(default_folder()).put_note(self.read.name, "diagnosis", content)

    def _holds(self, files: tuple[str, ...]) -> bool:
        """Whether the traces are directly in the folder, not below it."""
        path = Path(self.path)
        return all(Path(file).parent == (path if path.is_dir() else path.parent) for file in files)


def _is_plain(options: Options) -> bool:
    """Whether the options name no other files or machines, and the cache is to be used."""
    loading, elsewhere = options.loading, (options.monitored, options.torch_traces, options.scheduler)
    return loading.cache and loading.memory_bytes is None and elsewhere == (None, None, None) and not options.rules_dirs


def _is_elsewhere(path: str | Path) -> bool:
    return "://" in str(path) or is_stream(Path(path)) or bool(reports_at(Path(path)))


def _read(path: Path, options: Options) -> _Read | None:
    folder = path if path.is_dir() else path.parent
    if is_window(folder.name) or is_window(folder.resolve().name):
        return None  # the logs of its run are in the folder above
    files = _files_in(folder)
    if files is None or not (path.is_dir() or path.name in files):
        return None
    if sum(state[2] for state in files.values()) < LEAST_BYTES or not _code_is_settled(code := _code()):
        return None
    return _Read(code, files, (*_versions(), str(path), os.getcwd(), *_stated(options)))


def _files_in(folder: Path) -> States | None:
    """The files in the folder that an analysis may read; None if it may read others, too."""
    names = os.listdir(folder)
    if len(names) > _MOST_FILES or any(name.startswith(CHECKPOINT) for name in names):
        return None
    found = States()
    for path in (folder / name for name in names if not name.endswith(_NOT_READ)):
        with contextlib.suppress(FileNotFoundError):  # a link to nothing
            if not path.is_dir():
                found[path.name] = state_of(path)
    return found or None


def _code() -> States:
    """State of each file that diagnose is installed with: code, compiled code, tables and rules."""
    return {str(path): state_of(path) for folder in (_PACKAGE, builtin_rules()) for path in _below(folder)}


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder, followlinks=True):  # a checkout links the probes
        folders[:] = (name for name in folders if name != "__pycache__")
        yield from (Path(place, name) for name in files)


def _code_is_settled(code: States) -> bool:
    """Whether the code was not written to since this process read it."""
    return max(state[-1] for state in code.values()) < IMPORTED_NS - SETTLED_AFTER_NS


def _versions() -> Iterator[str]:
    """Versions of the other software that computes; numpy's file stands for its version, since importing it is slow."""
    numpy = importlib.util.find_spec("numpy")
    yield from (sys.version, msgspec.__version__, *time.tzname)
    yield from (os.environ.get(name, "") for name in ("DIAGNOSE_READER", "DIAGNOSE_REPLAY"))
    yield str(state_of(Path(numpy.origin)) if numpy is not None and numpy.origin else None)


def _stated(options: Options) -> Iterator[str]:
    """All options except how traces are loaded, which changes no answer."""
    for name in options.__struct_fields__:
        value = getattr(options, name)
        if name != "loading":
            yield f"{name} {(value.pattern, value.flags) if isinstance(value, re.Pattern) else value!r}"
