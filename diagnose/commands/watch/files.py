"""Files that every view is written to: each whole or not at all over the one before, or a line behind those before."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from diagnose.cli.voice import say
from diagnose.cli.whole_file import write_whole
from diagnose.commands.watch.view import View
from diagnose.errors import UserError, printable

Form = Callable[[View], str]


class Files:
    """The files with what makes the content of each.

    Args:
        forms: of files that are replaced.
        lines: of files that grow by a line.
    """

    def __init__(self, forms: Mapping[Path, Form], lines: Mapping[Path, Form] | None = None) -> None:
        self._forms, self._lines = forms, lines or {}
        self._written: dict[Path, bool] = {}

    def write(self, view: View) -> None:
        """Write the view to each. One that was written before may fail for a while; that is said once.

        Raises:
            UserError: a file cannot be written from the first.
        """
        for to, form in self._forms.items():
            self._write(to, form(view).encode(), write_whole)
        for to, form in self._lines.items():
            self._write(to, form(view).encode(), _append)

    def _write(self, to: Path, content: bytes, how: Callable[[Path, bytes], None]) -> None:
        try:
            how(to, content)
        except OSError as error:
            self._failed(to, error)
        else:
            self._written[to] = True

    def _failed(self, to: Path, error: OSError) -> None:
        why = error.strerror or str(error)
        if to not in self._written:
            raise UserError("cannot write the view", where=to, why=why, do="name another place") from error
        if self._written[to]:
            say(f"{printable(str(to))} is not written: {why}; it is tried again")
        self._written[to] = False


def _append(to: Path, line: bytes) -> None:
    """Append the line; one that was cut before, as on a full disk, ends first."""
    file = os.open(to, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        size = os.fstat(file).st_size
        cut = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        left = (b"\n" if cut else b"") + line
        while left:
            left = left[os.write(file, left) :]
    finally:
        os.close(file)
