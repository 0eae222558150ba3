"""Errors for statements of the user about a log that do not apply to the input."""

from pathlib import Path

from diagnose.errors import WrongUsage
from diagnose.series.columns import Stated


class UnitNotTaken(WrongUsage):
    """The user states the unit of times whose source states it itself."""


def unit_not_taken(where: object, why: str) -> UnitNotTaken:
    """The error for the file or folder `where`."""
    return UnitNotTaken("--unit has no effect", where=where, why=why, do="leave it out")


def refuse_unit(stated: Stated, where: Path, why: str = "its times are in a unit of their own") -> None:
    """Raise WrongUsage if a unit is stated."""
    if stated.unit is not None:
        raise unit_not_taken(where, why)


def refuse_names(stated: Stated, path: Path) -> None:
    """Raise WrongUsage if columns are named."""
    if stated.names:
        raise WrongUsage("no columns to name", where=path, why="only logs have them: .csv .tsv .jsonl")
