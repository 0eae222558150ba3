"""Read a diagnosis back from the JSON of `analyze --json`, and recognise it among other JSON."""

from pathlib import Path
from typing import Literal

import msgspec

from diagnose.decoding import UNREADABLE, has_endless_number
from diagnose.diagnosis.diagnosis import Diagnosis
from diagnose.errors import UserError

LARGEST_BYTES = 256 << 20
_OLDEST = 4  # since when every key has meant the same; later ones have their defaults
_ABSENT = msgspec.Raw(b"")


def diagnosis_in(content: bytes, path: Path) -> Diagnosis:
    """The diagnosis that `analyze --json` wrote to the file at `path`.

    Raises:
        UserError: it is none, or of another version.
    """
    if has_endless_number(content):
        raise _unusable(path, "it has a number of a hundred digits")
    try:
        diagnosis = msgspec.json.decode(content, type=Diagnosis)
    except UNREADABLE as error:
        raise _unusable(path, str(error)) from error
    if not _OLDEST <= diagnosis.schema_version <= Diagnosis.version():
        raise _unusable(path, f"its schema_version is {diagnosis.schema_version}, not {Diagnosis.version()}")
    return diagnosis


class _Keys(msgspec.Struct):
    """Keys by which the kinds of JSON are recognised."""

    schema_version: msgspec.Raw = _ABSENT
    verdict: msgspec.Raw = _ABSENT
    log_history: msgspec.Raw = _ABSENT


def kind_of(content: bytes) -> Literal["diagnosis", "trainer state", ""]:
    """The kind of a JSON file by its keys; "" if it is another kind, or not JSON."""
    try:
        keys = msgspec.json.decode(content, type=_Keys)
    except UNREADABLE:
        return ""
    if keys.schema_version and keys.verdict:
        return "diagnosis"
    return "trainer state" if keys.log_history else ""


def _unusable(path: Path, why: str) -> UserError:
    return UserError("cannot use the diagnosis", where=path, why=why, do="make it again: diagnose analyze RUN --json")
