"""Count the batches between two steps: far more than a step takes are those of an evaluation."""

from __future__ import annotations

MOST_BATCHES = 50  # and four steps' worth, without a step: the events of an evaluation would fill the memory


class Fetches:
    """Counts the batches that the training thread fetches."""

    def __init__(self) -> None:
        self._since_step = self._per_step = 0

    def step_ended(self) -> None:
        """End a step: its batches are the usual number per step, if no other step took more."""
        self._per_step, self._since_step = max(self._per_step, self._since_step), 0

    def one_too_many(self) -> bool:
        """Count a batch; whether there are too many for a step, which may accumulate hundreds."""
        self._since_step += 1
        return bool(self._per_step) and self._since_step > MOST_BATCHES + 4 * self._per_step
