"""The windows to come, by their first recorded steps, so that none overlaps another and they are not too many."""

from __future__ import annotations

import math

from ..window import Plan
from .triggers import Triggers, Wanted

COOL_DOWN_STEPS = 200  # between windows that slow steps ask for
MOST_ON_DEMAND = 100


class Schedule:
    """The windows of one loop; `plan` holds the steps of each.

    Windows by count are the same on every rank, since every rank counts; the others are those that rank 0 announces.
    """

    def __init__(self, asked: Triggers, plan: Plan, done: int) -> None:
        self.begun: int | None = None
        self._asked = asked
        self._warmup, self._before, self._active = plan.warmup, plan.warmup + plan.control, plan.active
        self._coming: dict[int, str] = {}
        self._is_over = False
        self._latest = 0
        self._counted_so_far = self._slow_so_far = self._on_demand_so_far = 0
        self._closed_at = done - COOL_DOWN_STEPS

    @property
    def is_free(self) -> bool:
        """Whether no window is open or announced."""
        return self.begun is None and not self._coming

    def ends(self) -> None:
        """Cancel all windows."""
        self._is_over = True
        self._coming.clear()

    def announced(self, first: int, why: str) -> None:
        """Note that rank 0 announced a window."""
        if not self._is_over:
            self._coming[first] = why

    def withdrawn(self, first: int, number: int) -> None:
        """Remove a window that cannot be announced to the other ranks; slow steps ask for none for a while."""
        self._coming.pop(first, None)
        self._closed_at = number

    def place(self, wanted: Wanted, number: int, ahead: int) -> int | None:
        """Place a window after step `number`, so many steps `ahead` that all ranks know of it; None if it cannot be."""
        if not self._may_come(wanted, number):
            return None
        earliest = number + 1 + (self._before + ahead if ahead else self._warmup)
        first = self._clear_of_others(wanted, earliest, number)
        if first is not None:
            self._coming[first] = wanted.why
            self._slow_so_far += wanted.slow
            self._on_demand_so_far += not wanted.slow
        return first

    def due(self, number: int) -> tuple[int, str] | None:
        """The window to prepare from the step after `number` on: its first recorded step, and why it opens."""
        counted = self._counted(number)
        first = min([*self._coming, *([] if counted is None else [counted])], default=None)
        if first is None or number + 1 < first - self._before:
            return None
        why = self._coming.pop(first, None)
        if why is None:
            given = first in self._asked.at_steps
            why = f"asked for by --at-step {first}" if given else f"every {self._asked.every} steps"
            self._counted_so_far += not given
        self.begun = self._latest = first
        return first, why

    def quiet_until(self, number: int) -> float:
        """The step at whose end a window becomes due or is missed, as far as is known after step `number`."""
        counted = self._counted(number)
        first = min([*self._coming, *([] if counted is None else [counted])], default=math.inf)
        return first - self._before - 1

    def closed(self, number: int) -> None:
        """Note that the window has closed."""
        self.begun, self._closed_at = None, number

    def missed(self, number: int) -> list[tuple[int, str]]:
        """Take out the windows that were announced too late for this rank, with no step left to warm up in."""
        return [(first, self._coming.pop(first)) for first in sorted(self._coming) if first <= number + 1]

    def _may_come(self, wanted: Wanted, number: int) -> bool:
        if self._is_over:
            return False
        if not wanted.slow:
            return self._on_demand_so_far < MOST_ON_DEMAND
        cool = number - self._closed_at >= COOL_DOWN_STEPS
        return cool and self.is_free and self._slow_so_far < self._asked.windows

    def _clear_of_others(self, wanted: Wanted, earliest: int, number: int) -> int | None:
        """The first step of a window that overlaps no other; None if it is for slow steps and would have to move."""
        near = 2 * (self._before + self._active)
        counted = self._counted(number)
        taken = [*self._coming, *(step for step in (counted, self.begun) if step is not None)]
        first = wanted.first_step(earliest, self._active)
        while first is not None and any(abs(first - step) < near for step in taken):
            if wanted.slow and not wanted.period:
                return None
            first = wanted.first_step(first + (near if wanted.period else 1), self._active)
        return first

    def _counted(self, number: int) -> int | None:
        """The next window by count that has a step left to warm up in."""
        if self._is_over:
            return None
        return self._asked.counted(max(number + 1, self._latest), self._counted_so_far)
