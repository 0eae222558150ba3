"""The top-level keys of a trace, which stand before and behind its events, those that are read of known types."""

import json
import re
from typing import Any

from diagnose.decoding import Kind, all_of, encodable, listed, number, table, text, whole
from diagnose.probes.protocol import OWN_STEPS
from diagnose.trace import distributed
from diagnose.trace.columns import ReadingLoss
from diagnose.trace.events import UNREADABLE
from diagnose.trace.repair import repaired

_DECODER = json.JSONDecoder(strict=False)
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_LARGEST_REPAIR = 1 << 20
_DEVICE = {
    "id": whole(0, 1 << 16),
    "name": text,
    "totalGlobalMem": number(0, 1 << 50),
    "numSms": number(0, 1 << 16),
    **{name: number(0, 1 << 30) for name in ("computeMajor", "computeMinor", "warpSize", "regsPerMultiprocessor")},
}
_FIELDS: dict[str, Kind] = {
    "deviceProperties": listed(table(_DEVICE)),
    distributed.KEY: distributed.KIND,
    "baseTimeNanoseconds": number(0, 1 << 62),
    OWN_STEPS: all_of(whole(0, 1 << 48), 2, 2),
}


def top_level_keys(head: bytes, tail: bytes | bytearray | None, loss: ReadingLoss) -> dict[str, Any]:
    """The keys of the object around the list of events; there is none when `head` is blank.

    Args:
        head: the text before the key of the list.
        tail: the text behind the list, None when the file ends before it.
        loss: books what cannot be read.
    """
    if not head.strip():
        book_garbage(bytes(tail or b""), loss)
        return {}
    keys = _object(head.strip().rstrip(b",") + b"}", loss)
    return _typed(keys if tail is None else keys | _object(b"{" + tail.strip().removeprefix(b","), loss), loss)


def _typed(keys: dict[str, Any], loss: ReadingLoss) -> dict[str, Any]:
    """The keys, those in `_FIELDS` converted to their types; the first value that cannot be is counted as lost."""
    damaged: list[str] = []
    typed = {key: _FIELDS[key](keys[key], key, damaged.append) for key in keys.keys() & _FIELDS.keys()}
    for _ in damaged[:1]:
        loss.count("unreadable-metadata")
    return {key: typed.get(key, value) for key, value in keys.items() if typed.get(key, value) is not None}


def book_garbage(text: bytes, loss: ReadingLoss) -> None:
    """Count as lost any text other than space and commas."""
    if garbage := text.strip(b" \t\r\n,"):
        loss.count("unreadable-text", size=len(garbage))


def _object(text: bytes, loss: ReadingLoss) -> dict[str, Any]:
    for read in (_as_it_is, _repaired):
        attempt = read(text)
        try:
            found, end = _DECODER.raw_decode(attempt)
            if _HALF_CHARACTER.search(attempt):
                found = json.loads(encodable(json.dumps(found, ensure_ascii=False)))
        except UNREADABLE:
            continue
        book_garbage(attempt[end:].encode("utf-8", "replace"), loss)
        return found if isinstance(found, dict) else {}
    loss.count("unreadable-metadata", size=len(text))
    return {}


def _as_it_is(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _repaired(text: bytes) -> str:
    return repaired(text[:_LARGEST_REPAIR])[0]
