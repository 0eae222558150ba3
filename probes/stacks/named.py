"""The frame that a report names to a user: one owner for `diagnose data` and the report of a run."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    Frame = TypeVar("Frame")


def what_loads(frames: Sequence[Frame]) -> Frame:
    """The frame, of the user's from the outermost on, at which a batch is loaded: the innermost, which is that of the
    dataset, the transform or the collator below any loop that asks for batches.
    """
    return frames[-1]
