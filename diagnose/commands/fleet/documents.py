"""JSON files below a folder: find those that are diagnoses, packed or not, and those that cannot be read."""

import re
from pathlib import Path

import msgspec

from diagnose.decoding import UNREADABLE
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.reading import LARGEST_BYTES, diagnosis_in, kind_of
from diagnose.errors import UserError
from diagnose.trace.source import Source
from diagnose.trace.unpacking import GZIP_MAGIC, ZSTD_MAGIC

JSON_SUFFIXES = (".json", ".json.gz", ".json.zst")
_BEGINS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"schema_version"\s*:')
_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*[\[{"tfn0-9-]')
_CUT = "Input data was truncated"  # in msgspec's words
_OURS = b'"schema_version"'
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def begins_diagnosis(start: bytes) -> bool:
    """Whether a file with this start is a document of diagnose, with its keys in their order."""
    return _BEGINS.match(start) is not None


def refuse_no_json(start: bytes) -> None:
    """Raise UserError if this cannot be the start of JSON in UTF-8, packed or not."""
    if start.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        return
    if not start.strip():
        raise UserError("it is empty")
    if start.startswith(_UTF_16) or b"\0" in start:
        raise UserError("it is not UTF-8")
    if not _JSON.match(start):
        raise UserError("it is not JSON")


def stem_of(name: str) -> str:
    """The name of a JSON file without its suffix."""
    return next((name.removesuffix(suffix) for suffix in JSON_SUFFIXES if name.endswith(suffix)), name)


def diagnosis_at(path: Path) -> Diagnosis | None:
    """The diagnosis in the file; None if the file is another of diagnose's documents.

    Raises:
        UserError: it cannot be read, or used.
    """
    content = _content(path)
    if content is None:
        raise UserError(f"it is larger than {LARGEST_BYTES >> 20} MiB")
    try:
        return diagnosis_in(content, path)
    except UserError as error:
        if _is_another_document(content):
            return None
        raise UserError(error.why) from error


def is_diagnosis(path: Path) -> bool:
    """Whether the file is a diagnosis that is packed, or has its keys in another order.

    Raises:
        UserError: it cannot be unpacked, or is cut short, so that it is unknown.
    """
    content = _content(path)
    if content is None:
        return False
    kind = kind_of(content)
    if not kind:
        _refuse_what_is_cut(content)
    return kind == "diagnosis"


def _refuse_what_is_cut(content: bytes) -> None:
    """Raise UserError if the text ends too early, or is damaged and contains the first key of diagnose's documents.

    Other broken JSON is not ours: that of other programs may have comments, several documents or invalid numbers.
    """
    try:
        msgspec.json.decode(content, type=msgspec.Raw)
    except RecursionError:
        return
    except msgspec.DecodeError as error:
        if str(error) == _CUT or _OURS in content:
            raise UserError(str(error)) from error


def _content(path: Path) -> bytes | None:
    """The text of the file, None if it is too large for a diagnosis."""
    if path.stat().st_size > LARGEST_BYTES:
        return None
    blocks, size = list[bytes](), 0
    for block in Source(path).blocks():
        blocks.append(block)
        size += len(block)
        if size > LARGEST_BYTES:
            return None
    return b"".join(blocks)


class _Keys(msgspec.Struct):
    """The keys that a diagnosis has; no other of diagnose's documents has all of them."""

    verdict: msgspec.Raw = msgspec.Raw(b"")
    ranks: msgspec.Raw = msgspec.Raw(b"")
    steps: msgspec.Raw = msgspec.Raw(b"")


def _is_another_document(content: bytes) -> bool:
    try:
        keys = msgspec.json.decode(content, type=_Keys)
    except UNREADABLE:
        return False
    return not (keys.verdict and keys.ranks and keys.steps)
