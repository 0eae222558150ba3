"""The top-level keys of a trace, which stand before and behind its events."""

import json
import re
from typing import Any

from diagnose.trace.columns import Loss
from diagnose.trace.events import UNREADABLE, encodable
from diagnose.trace.repair import repaired

_DECODER = json.JSONDecoder(strict=False)
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_LARGEST_REPAIR = 1 << 20


def top_level_keys(head: bytes, tail: bytes | bytearray | None, loss: Loss) -> dict[str, Any]:
    """The keys of the object around the list of events; there is none when `head` is blank.

    Args:
        head: the text before the key of the list.
        tail: the text behind the list, None when the file ends before it.
        loss: books what cannot be read.
    """
    if not head.strip():
        book_garbage(bytes(tail or b""), loss)
        return {}
    found = _object(head.strip().rstrip(b",") + b"}", loss)
    return found if tail is None else found | _object(b"{" + tail.strip().removeprefix(b","), loss)


def book_garbage(text: bytes, loss: Loss) -> None:
    """Books as lost what stands where nothing may stand but space and commas."""
    if garbage := text.strip(b" \t\r\n,"):
        loss.count("unreadable-text", size=len(garbage))


def _object(text: bytes, loss: Loss) -> dict[str, Any]:
    for attempt in (text.decode("utf-8", "replace"), repaired(text[:_LARGEST_REPAIR])[0]):
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
