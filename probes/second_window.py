"""The second window of a run: with stacks and memory if that is asked, and at a step that comes again and again.

A rank that trains alone judges its steps by their times without the profiler. Ranks that judged on their own would open
it at different steps, so several open it by count, and only with stacks.
"""

from __future__ import annotations

from .protocol import PHASE_SHARE, WHEN_SLOW
from .timing.slowness import Slowness
from .timing.triggers import Wanted

STEPS = 3  # the second of them is the slow one


class SecondWindow:
    """Decides whether a window follows the first one, and with which step it begins.

    Args:
        deep: it is asked for, with stacks and memory.
        judges: steps are judged; else only the count matters.
    """

    def __init__(self, deep: bool, judges: bool) -> None:
        self.deep = deep
        self._slowness = Slowness(WHEN_SLOW) if judges else None
        self._recurring: Wanted | None = None
        self._share = PHASE_SHARE
        self._recorded: list[int] = []

    def step_ended(self, step: int, ns: int, profiled: bool) -> None:
        """Note a step: its nanoseconds without the profiler, or that the window held it."""
        if profiled:
            self._recorded.append(step)
        elif self._slowness is not None and ns:
            wanted = self._slowness.step_ended(step, ns)
            if wanted is not None and wanted.period:
                self._comes_again(wanted, ns / max(self._slowness.usual.median, 1) - 1)

    def _comes_again(self, wanted: Wanted, excess: float) -> None:
        """Keep what takes most of the time: `excess` usual steps beyond one, once in a period."""
        share = excess / (wanted.period + excess)
        if share >= self._share or (self._recurring is not None and wanted.period == self._recurring.period):
            self._recurring, self._share = wanted, max(share, self._share)

    def first_step(self, number: int, warmup: int) -> int | None:
        """The first recorded step of a window after step `number` with steps to warm up in; None if none is due."""
        wanted = self._recurring
        if wanted is not None and (self.deep or not self._was_recorded(wanted)):
            return wanted.first_step(number + 1 + warmup, STEPS)
        return number + 1 + warmup if self.deep else None

    def _was_recorded(self, wanted: Wanted) -> bool:
        """Whether the first window counts a step of the phase; its first step is not counted."""
        assert wanted.step is not None
        return any((wanted.step - step) % wanted.period == 0 for step in self._recorded[1:])
