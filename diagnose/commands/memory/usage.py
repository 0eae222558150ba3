"""Curve of the memory of a device over its recorded history, in use and reserved, in few points."""

from collections.abc import Iterator

import numpy as np

from diagnose.commands.memory.answer import Usage
from diagnose.commands.memory.replay import frees_by
from diagnose.commands.memory.snapshot import ACTIONS, History

MOST_POINTS = 240
_GROWING = ("segment_alloc", "segment_map")
_SHRINKING = ("segment_free", "segment_unmap")


def usage(history: History, allocated_bytes: int, reserved_bytes: int) -> Usage:
    """The maximum of either in each of at most `MOST_POINTS` parts of the history.

    Args:
        history: of one device.
        allocated_bytes: in use at the end of the history.
        reserved_bytes: likewise.
    """
    in_use = dict.fromkeys(["alloc"], 1) | {ACTIONS[frees_by(history)]: -1}
    reserved = dict.fromkeys(_GROWING, 1) | dict.fromkeys(_SHRINKING, -1)
    each = -(-len(history) // MOST_POINTS) if len(history) else 1
    return Usage(
        actions_per_point=each,
        allocated_bytes=tuple(_most(history, in_use, allocated_bytes, each)),
        reserved_bytes=tuple(_most(history, reserved, reserved_bytes, each)),
    )


def _most(history: History, signs: dict[str, int], end_bytes: int, each: int) -> Iterator[int]:
    """The maximum in each part. The memory before the first action is that at the end, less what was added."""
    sign_of = np.zeros(len(ACTIONS) + 2)  # doubles: exact to 8 PiB, and what is damaged does not wrap around
    for action, sign in signs.items():
        sign_of[ACTIONS.index(action)] = sign
    actions, sizes = np.frombuffer(history.actions, np.int8), np.frombuffer(history.sizes, np.int64)
    parts = [slice(begin, begin + each) for begin in range(0, len(history), each)]
    added = sum(int((sign_of[actions[part]] * sizes[part]).sum()) for part in parts)
    now = float(max(0, end_bytes - added))
    for part in parts:
        over = now + np.cumsum(sign_of[actions[part]] * sizes[part])
        yield int(max(0.0, now, over.max()))
        now = float(over[-1])
