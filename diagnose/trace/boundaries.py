"""Find where one event ends and the next begins, from a few bytes of text in any layout.

Space is matched possessively, so that no run of blanks is looked at twice.
"""

import re

from diagnose.trace.events import length_of_event, length_of_junk

BOUNDARY = re.compile(rb'\}\s*+,\s*+\{\s*+"(?:ph|name|cat|pid|tid|ts|args|dur|id|bp|s)"\s*+:')
BOUNDARY_BYTES = 1 << 10  # room for a boundary with all its space
NEXT_EVENT = re.compile(rb"\s*+,\s*+\{")
LIST_END = re.compile(rb'\s*+(?:,\s*+)?+\](?=\s*+(?:,\s*+"|\}|\Z))')
PROBABLE_END = re.compile(
    rb"\}(\s*+\])(?=\s*+(?:(?:\}\s*+)?+\Z|,\s*+"
    rb'"(?:traceName|baseTime\w*|displayTimeUnit|distributedInfo|deviceProperties|schemaVersion|record_shapes)"))'
)
_COMMA = re.compile(rb"\s*+(?:,\s*+)?+")
_LARGEST_JUNK = 1 << 12
_LOOKAHEADS = (64, 4096)  # boundaries that may lie inside one event, in its strings and nested arguments


def leading(text: bytes | memoryview) -> int:
    """Length of the comma and the space before an event."""
    match = _COMMA.match(text)
    return match.end() if match else 0


def event_size(text: bytes, start: int, ends: list[int], at: int, *, last: bool) -> int | None:
    """Bytes of the JSON object at `start`, 0 if there is none, None if that depends on the text that follows.

    `ends[at]` is the first boundary after `start`; with `last`, no text follows.
    """
    begin = start + leading(text[start : ends[at]])
    for lookahead in _LOOKAHEADS:
        if at + lookahead >= len(ends) and not last:
            return None
        size = length_of_event(text[begin : ends[min(at + lookahead, len(ends) - 1)]])
        if size is not None:
            return size
    return 0


def past_junk(text: bytes, start: int) -> int:
    """The end of the short values that begin at `start` and are not objects, each with the comma before it."""
    while True:
        begin = start + leading(text[start : start + BOUNDARY_BYTES])
        size = length_of_junk(text[begin : begin + _LARGEST_JUNK])
        if not size:
            return start
        start = begin + size


def last_boundary(text: bytes | bytearray, floor: int) -> int:
    """Offset just after the closing brace of the last event, at `floor` or later, that another follows; 0 for none."""
    start, window = len(text), 1 << 12
    while start > floor:
        start = max(floor, len(text) - window)
        cuts = [match.start() + 1 for match in BOUNDARY.finditer(text, start)]
        if cuts:
            return cuts[-1]
        window *= 4
    return 0
