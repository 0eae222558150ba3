"""Batches between two steps: far more than a step takes are those of an evaluation."""

from __future__ import annotations

MOST_BATCHES = 50  # and four steps' worth, without a step: the events of an evaluation would fill the memory


class Fetches:
    """Counts the batches that the training thread was given."""

    def __init__(self) -> None:
        self._since_step = self._per_step = 0

    def step_ended(self) -> None:
        """A step has ended: its batches are what a step takes, if no other took more."""
        self._per_step, self._since_step = max(self._per_step, self._since_step), 0

    def one_too_many(self) -> bool:
        """A batch has come; whether there are more than a step takes, which accumulates hundreds at times."""
        self._since_step += 1
        return bool(self._per_step) and self._since_step > MOST_BATCHES + 4 * self._per_step
