"""The files below a folder, here or at a URL, one at a time on this machine."""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from diagnose.errors import UserError, shown_path
from diagnose.trace import displayed, on_this_machine
from diagnose.trace.remote import files_below, is_remote, start_of

START_BYTES = 4096
Refuse = Callable[[str, str], None]  # called with the place of what cannot be read, and why


class Tree(Protocol):
    """Files by their place below the folder, its parts joined by slashes."""

    shown: str

    def folders(self, refuse: Refuse) -> Iterator[tuple[str, list[str]]]:
        """Each folder ("" is the top) with the names of its files, in order; names with a leading dot are left out."""

    def start(self, file: str) -> bytes:
        """The first bytes of a file."""

    def here(self, place: str) -> AbstractContextManager[Path]:
        """The file or folder on this machine, as long as the block runs."""


def tree_at(path: str) -> Tree:
    """The tree of a folder, or of a URL.

    Raises:
        UserError: there is no such folder.
    """
    if is_remote(path):
        return _Remote(path)
    if not Path(path).is_dir():
        what = "no folder of diagnoses" if Path(path).exists() else "no such folder"
        raise UserError(what, where=path, do="name the folder that the diagnoses and runs are in")
    return _Local(Path(path))


class _Local:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.shown = shown_path(root)

    def folders(self, refuse: Refuse) -> Iterator[tuple[str, list[str]]]:
        def unread(error: OSError) -> None:
            refuse(self._place(error.filename), error.strerror or str(error))

        for folder, below, names in os.walk(self._root, onerror=unread):
            below[:] = sorted(name for name in below if not name.startswith("."))
            files = (Path(folder) / name for name in sorted(names) if not name.startswith("."))
            yield self._place(folder), [file.name for file in files if self._is_file(file, unread)]

    def _place(self, path: str | Path) -> str:
        return Path(path).relative_to(self._root).as_posix().removeprefix(".")

    @staticmethod
    def _is_file(path: Path, unread: Callable[[OSError], None]) -> bool:
        """Whether the path is a file, even if its folder may only be listed."""
        try:
            return stat.S_ISREG(path.stat().st_mode)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # as of a link to nothing
                unread(error)
            return False

    def start(self, file: str) -> bytes:
        try:
            with (self._root / file).open("rb") as opened:
                return opened.read(START_BYTES)
        except OSError as error:
            raise UserError("cannot read the file", where=file, why=error.strerror or str(error)) from error

    @contextlib.contextmanager
    def here(self, place: str) -> Iterator[Path]:
        yield self._root / place


class _Remote:
    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self.shown = displayed(url)

    def folders(self, refuse: Refuse) -> Iterator[tuple[str, list[str]]]:  # what is there is listed whole, or not
        names: dict[str, list[str]] = {}
        for place in files_below(self._url):
            folder, _, name = place.rpartition("/")
            if not any(part.startswith(".") for part in place.split("/")):
                names.setdefault(folder, []).append(name)
        yield from ((folder, sorted(names[folder])) for folder in sorted(names))

    def start(self, file: str) -> bytes:
        return start_of(f"{self._url}/{file}", START_BYTES)

    @contextlib.contextmanager
    def here(self, place: str) -> Iterator[Path]:
        with on_this_machine(f"{self._url}/{place}" if place else self._url) as copied:
            yield copied.path
