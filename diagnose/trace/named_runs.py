"""The run that `--run` names, of those in a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from diagnose.errors import WrongUsage, printable


class File(Protocol):
    """A file of a run."""

    @property
    def path(self) -> Path:
        """Where it is."""


class Named(Protocol):
    """A run that has a name."""

    @property
    def name(self) -> str:
        """As it is asked for."""

    @property
    def files(self) -> Sequence[File]:
        """Its trace files."""


Run = TypeVar("Run", bound=Named)


def called(name: str | None, runs: Sequence[Run], path: Path) -> Run:
    """The run of that name, or whose files alone are in the folder of that name; the first where none is asked for.

    Raises:
        WrongUsage: no run is called so, or several are.
    """
    if name is None:
        return runs[0]
    for called in (lambda run: {run.name}, lambda run: _folders(run, path)):
        found = [run for run in runs if name.rstrip("/") in called(run)]
        if len(found) == 1:
            return found[0]
    names = ", ".join(printable(r.name) for r in runs)
    raise WrongUsage(f"no run called {printable(name)!r}", where=path, do=f"choose one of: {names}")


def _folders(run: Named, path: Path) -> set[str]:
    """The folder below `path` that holds the files of the run, where one does, and a single file itself."""
    folders = {file.path.parent for file in run.files}
    named = {f.path for f in run.files if len(run.files) == 1} | (folders if len(folders) == 1 else set())
    return {place.relative_to(path).as_posix() for place in named if place.is_relative_to(path) and place != path}
