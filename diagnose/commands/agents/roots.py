"""The folders that an agent may read: every path that it names lies in one of them, and no link leads out.

Files are found and opened in many places, by the names that a folder holds. So a hook on the interpreter's audit events
checks each: a link that leads out of the folders counts as a file without permission, no file is written, and no
program starts.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from diagnose.errors import UserError, printable
from diagnose.series.places import is_window
from diagnose.trace.remote import reports_at

LONGEST_SHOWN = 300
_LOOKS = {"open", "os.listdir", "os.scandir"}
_CHANGES = {
    "os.chmod", "os.link", "os.mkdir", "os.mkfifo", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
    "os.utime",
}  # fmt: skip
_STARTS = {"os.exec", "os.fork", "os.posix_spawn", "os.system", "subprocess.Popen"}
_WATCHED = _LOOKS | _CHANGES | _STARTS
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Roots:
    """Folders, with every link followed.

    Raises:
        UserError: one is no folder, or that of one window, whose step times lie outside it.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not os.path.isdir(folder):
                raise UserError("no such folder", where=folder, do="name the folder of your runs")
        self.folders = tuple(Path(os.path.realpath(folder)) for folder in folders)
        for folder in self.folders:
            if is_window(folder.name):
                raise UserError("the folder is one window of a run", where=folder, do="name the folder of the run")

    def __str__(self) -> str:
        return ", ".join(map(str, self.folders))

    def inside(self, given: str) -> Path:
        """The file or folder of a full path, or of a path from a root on.

        Raises:
            UserError: it is outside, not there, in several roots, a pipe or device, or a report that a program has to
                export.
        """
        if (found := self.find(given)) is None:
            raise UserError("no such file or folder", where=_shown(given), do=f"name a path in {self}")
        return found

    def find(self, given: str) -> Path | None:
        """The path as `inside` gives it if it exists; None if it would be inside but does not exist.

        Raises:
            UserError: as `inside`, whether or not there is such a file outside.
        """
        where = _shown(given)
        try:
            meant = {Path(os.path.realpath(folder / given)) for folder in self.folders}
        except ValueError as error:
            raise UserError("no path", where=printable(where), why=str(error)) from error
        within = [path for path in meant if self._hold(str(path))]
        if not within:
            raise UserError("outside the folders that may be read", where=where, do=f"name a path in {self}")
        there = [path for path in within if os.path.exists(path)]
        if len(there) > 1:
            raise UserError("in several of the folders", where=where, do="name its whole path")
        return _readable(there[0]) if there else None

    def leads_out(self, path: str) -> bool:
        """Whether a path that begins in one of the folders ends outside all of them."""
        begins = os.path.abspath(path)
        return self._hold(begins) and not self._hold(os.path.realpath(begins))

    def _hold(self, path: str) -> bool:
        return any(Path(path).is_relative_to(folder) for folder in self.folders)

    @contextlib.contextmanager
    def confined(self) -> Iterator[None]:
        """Keep this thread's reads within the folders meanwhile, and let it change nothing."""
        _watch()
        before = _CONFINED.set(self)
        try:
            yield
        finally:
            _CONFINED.reset(before)


_CONFINED: ContextVar[Roots | None] = ContextVar("roots", default=None)


def _shown(given: str) -> str:
    return given if len(given) <= LONGEST_SHOWN else f"{given[:LONGEST_SHOWN]}..."


def _readable(path: Path) -> Path:
    if not path.is_file() and not path.is_dir():
        raise UserError("neither a file nor a folder", where=path, do="write what comes from it to a file")
    if reports := reports_at(path):
        why = "only nsys can export it, and no program is started here"
        do = f"nsys export --type=sqlite {printable(reports[0].name)}, and name the .sqlite file"
        raise UserError("cannot read a report of Nsight Systems", where=reports[0], why=why, do=do)
    return path


@cache
def _watch() -> None:
    """Add the audit hook, which stays as long as the process."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _WATCHED or (roots := _CONFINED.get()) is None:
        return
    if event in _STARTS:
        raise PermissionError(errno.EACCES, "no program is started here")
    path = arguments[0]
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
    if event in _CHANGES or writes:
        raise PermissionError(errno.EACCES, "nothing is written here", path)
    if isinstance(path, str | bytes | os.PathLike) and roots.leads_out(os.fsdecode(path)):
        raise PermissionError(errno.EACCES, "it leads out of the folders that may be read", os.fsdecode(path))
