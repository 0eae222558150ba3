"""The name of the function that a line calls, read from bytecode: `item` in `total += loss.item()`."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any

_NAMES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_BORROW")


def called_name(code: CodeType, at: int) -> str | None:
    """The name by which the call at position `at` finds its function; None if none runs there, or it has no name.

    A call and the load of its function begin at one place of the source. The name is not known before Python 3.11, nor
    if positions are not kept.
    """
    if not hasattr(code, "co_positions"):
        return None
    instructions = list(dis.get_instructions(code))
    call = next((each for each in reversed(instructions) if each.offset <= at), None)  # its caches follow it
    if call is None or not call.opname.startswith(("CALL", "PRECALL")):
        return None
    positions = call.positions
    if positions is None or None in positions:
        return None
    begin, end = (positions.lineno, positions.col_offset), (positions.end_lineno, positions.end_col_offset)
    names: dict[Any, object] = {}  # of expressions that begin with the call, by their end: the longest is the function
    for each in instructions:
        where = each.positions
        if each.offset >= call.offset or where is None or None in where or (where.lineno, where.col_offset) != begin:
            continue
        if (reached := (where.end_lineno, where.end_col_offset)) < end:
            names[reached] = each.argval if each.opname in _NAMES else names.get(reached)
    found = names[max(names)] if names else None
    return found if type(found) is str else None
