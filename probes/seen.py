"""Counts of what hooks have seen of a loop, handed to the parent at the exit: why there may be no window."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass

from .hand_over import at_exit
from .protocol import MARKS, SEEN_MARK
from .threaded import run_in_thread


@dataclass
class Seen:
    """Counts of this process: batches of its DataLoaders, backward passes, and steps of optimizers.

    Backward passes are counted up to the first step of an optimizer, and on if they end the steps.
    """

    batches: int = 0
    backward_passes: int = 0
    steps: int = 0


seen = Seen()


def tell_at_exit() -> None:
    """Leave the counts for the parent when this process ends, not when one that it forks does."""
    folder, owner = os.environ.get(MARKS), os.getpid()
    at_exit(lambda: _tell(folder) if folder and os.getpid() == owner else None, "what was seen is not told")


def _tell(folder: str) -> None:
    """Leave an empty file, which a full disk takes, too; without the folder the parent is gone."""
    path = os.path.join(folder, SEEN_MARK + ".".join(map(str, astuple(seen))))

    def leave() -> None:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))
        except OSError:
            return

    run_in_thread(leave)
