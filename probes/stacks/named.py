"""The frame that a report names: one owner for what `diagnose data` finds and what a report of a run finds."""

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
