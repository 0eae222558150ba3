"""Baselines: sides kept as small files under version control, to compare later runs with."""

import os
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from diagnose.commands.compare.side import SIDE_VERSION, Side
from diagnose.decoding import UNREADABLE, has_endless_number
from diagnose.diagnosis.answer import COUNTS
from diagnose.errors import UserError, WrongUsage
from diagnose.trace.source import opened

_LARGEST_BYTES = 16 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_OF_A_MACHINE = re.compile(r"[\\/~]|://")


def baseline_file(folder: Path, name: str) -> Path:
    """The file of the baseline with that name.

    Raises:
        UserError: a file cannot have the name everywhere.
    """
    if _NAME.fullmatch(name) is None:
        raise WrongUsage("not a valid name of a baseline", where=name, do="use letters, digits, and . _ - between them")
    return folder / f"{name}.json"


def kept(side: Side, name: str) -> Side:
    """The part of the side that a baseline keeps: nothing that names a machine or a path, under the baseline's name."""
    setup = {path: value for path, value in side.setup.items() if not _names_a_place(value)}
    seen = {fact: value for fact, value in side.seen.items() if not _names_a_place(value)}
    return replace(side, source=name, setup=setup, seen=seen)


def _names_a_place(value: object) -> bool:
    return isinstance(value, str) and _OF_A_MACHINE.search(value) is not None


def written(side: Side) -> bytes:
    """The file of a baseline: the same bytes for the same side, a line for each value, lists of numbers on one line."""
    text = msgspec.json.format(msgspec.json.encode(side, order="sorted"), indent=1).decode()
    return (COUNTS.sub(lambda found: "".join(found[0].split()), text) + "\n").encode()


def read(path: Path) -> Side:
    """The side that a baseline keeps.

    Raises:
        UserError: there is none, or it cannot be used.
    """
    if not path.is_file():
        do = f"keep one first: diagnose baseline save {path.stem} TRACE"
        raise UserError("no such baseline", where=path, do=do)
    if path.stat().st_size > _LARGEST_BYTES:
        raise _unusable(path, f"it is larger than {_LARGEST_BYTES >> 20} MiB")
    with opened(path, "the baseline") as file:
        content = file.read()
    if has_endless_number(content):
        raise _unusable(path, "it has a number of a hundred digits")
    try:
        side = msgspec.json.decode(content, type=Side)
    except UNREADABLE as error:
        raise _unusable(path, str(error)) from error
    if side.schema_version != SIDE_VERSION:
        raise _unusable(path, f"its schema_version is {side.schema_version}, not {SIDE_VERSION}")
    return side.checked()


class _Begun(msgspec.Struct):
    """The fields that every version of a baseline holds."""

    schema_version: int
    source: str
    setup: dict[str, Any]


def refuse_over_another(path: Path) -> None:
    """Refuse to write a baseline over any other file.

    Raises:
        UserError: there is a file that no version of this program wrote as a baseline.
    """
    if not os.path.lexists(path):
        return
    try:
        is_ours = path.is_file() and path.stat().st_size <= _LARGEST_BYTES
        content = path.read_bytes() if is_ours else b""
        msgspec.json.decode(content, type=_Begun)
    except (*UNREADABLE, OSError) as error:
        why = "what is there is no baseline"
        raise UserError("cannot write the baseline", where=path, why=why, do="use another name or --dir") from error


def _unusable(path: Path, why: str) -> UserError:
    return UserError("cannot use the baseline", where=path, why=why, do="save it again: diagnose baseline save")
