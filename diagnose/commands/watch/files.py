"""Files that every view is written to: each whole or not at all, over the one before."""

from collections.abc import Callable, Mapping
from pathlib import Path

from diagnose.cli.voice import say
from diagnose.cli.whole_file import whole_file
from diagnose.commands.watch.view import View
from diagnose.errors import UserError, printable

Form = Callable[[View], str]


class Files:
    """The files with what makes the content of each."""

    def __init__(self, forms: Mapping[Path, Form]) -> None:
        self._forms = forms
        self._written: dict[Path, bool] = {}

    def write(self, view: View) -> None:
        """Write the view to each. One that was written before may fail for a while; that is said once.

        Raises:
            UserError: a file cannot be written from the first.
        """
        for to, form in self._forms.items():
            try:
                with whole_file(to) as file:
                    file.write(form(view).encode())
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
