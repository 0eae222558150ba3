"""Look at a step that takes far too long while it runs: a single one is over before any window could open."""

from __future__ import annotations

from collections.abc import Callable

from ..stacks.folding import Folding
from ..stacks.sampling import StackSampler, why_not

LEAST_S = 2.0
TIMES = 5  # the usual step time
MOST_LOOKS = 100
_FRAMES = 3


class LongStepWatch:
    """Looks at the stack of the thread `thread` once in each step that is long.

    Args:
        thread: the training thread.
        underway_ns: the nanoseconds since the running step began, None if that is not known.
    """

    def __init__(self, thread: int, underway_ns: Callable[[], int | None]) -> None:
        self._thread, self._underway_ns = thread, underway_ns
        self._step = -1
        self._looks = 0 if not why_not() else MOST_LOOKS

    def look(self, step: int, usual_ns: int) -> dict[str, object] | None:
        """The place where the job is, if its step `step` takes far longer than the usual time; else None."""
        ns = self._underway_ns()
        limit = max(LEAST_S * 1e9, TIMES * usual_ns)
        if ns is None or not usual_ns or ns < limit or step == self._step or self._looks >= MOST_LOOKS:
            return None
        self._step = step
        self._looks += 1
        sampler = StackSampler(self._thread)
        stack = sampler.look()
        ((frames, doing, calls),) = Folding(sampler.codes).of({stack: 1})
        at = " < ".join(f"{file}:{line} {function}" for file, line, function in reversed(frames[-_FRAMES:]))
        return {"step": step, "after_ms": ns // 1_000_000, "at": at, "doing": doing, "calls": calls or ""}
