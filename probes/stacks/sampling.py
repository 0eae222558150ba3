"""Sample the training thread's stack in Python, every ten milliseconds of some steps or as often as is cheap.

A second thread looks at its stack and keeps code objects and positions, never a frame: locals live no longer than
without it, but for the microseconds of one look. Its samples count once a step is over, so that whole steps count.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

from ..guard import quietly
from ..side_thread import SideThread
from .enough import ENOUGH, SampledSteps

FIRST_INTERVAL_NS, INTERVAL_NS, LONGEST_INTERVAL_NS = 5_000_000, 10_000_000, 50_000_000
FIRST = 60  # samples that are taken twice as often, so that a run of a second shows its lines
LONGEST_STEP_NS = 60_000_000_000  # a loop may end unnoticed: no step is sampled for longer
MOST_TIMED = 20_000
SWITCH_S = 3e-5
"""A thread that wants the interpreter waits no longer for Python code.

It waits anew whenever the interpreter was free for a moment, as in each `torch.tensor`, and so would find the code only
where it is free for long. While a function in C keeps the interpreter, it wakes as often, which costs CPU time.
"""
NARROW_S, NARROW_NS = 5e-6, 200_000
"""The same in the time before a look, and that time: a hook of 50 us is else hardly ever found."""
DEEPEST = 512  # frames, from the innermost on
_COST = 0.01  # at most this share of the time is spent on looking; who gives way for a look may lose as much again
_FIRST_COST = 4 * _COST
_SET_TIMER_SLACK = 29  # PR_SET_TIMERSLACK of linux/prctl.h, which takes nanoseconds
_GOLDEN = 0.6180339887498949  # spreads the looks evenly, also over steps that take a multiple of the interval

Stacks = dict[tuple[int, ...], int]
"""Samples by stack: identity of the code and position in it of each frame, the innermost first."""


class StackSampler:
    """Samples the stack of `thread` while steps run that `start` and `step_ended` divide, until there are enough.

    A sample stands for an interval, whose length grows with the cost of a look: sampling never takes more than a share
    of the time. A look that had to wait, for a function in C that keeps the interpreter to itself, counts as many as
    passed meanwhile. Code in Python that keeps it for less than the switch interval is found at the point where it
    gives it up, a call of torch: so this interval is short while stacks are sampled, and the job's again afterwards.
    Nothing is raised; `why_none` is why there are no samples.

    Attributes:
        steps, samples, wall_ns, cost_ns: of the steps that ended, the last being the CPU time of the sampling.
        step_ns: nanoseconds of each step from `first_step` on, None for one that was not sampled.
        by_step: samples of those steps by stack, and by the number of the step.
        codes: each code object in them by its identity, and the name of its module.
        first_step: the number of the first of them.
        why_none: "" while there may be samples.
    """

    def __init__(self, thread: int) -> None:
        self.steps = self.samples = self.wall_ns = self.cost_ns = self.first_step = 0
        self.by_step: dict[tuple[int, ...], dict[int, int]] = {}
        self.step_ns: list[int | None] = []
        self._sampled = SampledSteps()
        self.codes: dict[int, tuple[CodeType, str]] = {}
        self.why_none = ""
        self._thread = thread
        self._over = False
        self._pending: Stacks = {}
        self._step_began = self._ended_at = self._cpu_ns = self._booked_ns = 0
        self._beside: SideThread | None = None
        self._jobs_switch_s = SWITCH_S

    @property
    def stacks(self) -> Stacks:
        """Samples by stack."""
        return {stack: sum(by_step.values()) for stack, by_step in self.by_step.items()}

    def start(self) -> None:
        """Sample from now on, at the begin of a step."""
        self.why_none = self.why_none or why_not()
        if self._beside is not None or self._over or self.why_none:
            return
        self._pending, self._step_began = {}, time.perf_counter_ns()
        self._ended_at = self._cpu_ns = self._booked_ns = 0
        try:
            self._beside = SideThread(self._run)
        except RuntimeError:
            self.why_none = "no thread could be started"
            return
        self._jobs_switch_s = sys.getswitchinterval()
        if self._jobs_switch_s > SWITCH_S:
            _switch_within(SWITCH_S)

    def step_ended(self, step: int) -> bool:
        """End the job's step `step`, which counts if it was sampled from its begin; whether there are enough."""
        if self._beside is None:
            self.start()
        else:
            self._book(step)
        if self._sampled.enough(self.samples) or self._ended_at or self.why_none:
            self.stop()
        return self._over

    def pause(self) -> None:
        """Stop sampling until the end of a step; samples of the running one do not count."""
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.stop(within_s=1)
            if _switches_within(SWITCH_S):  # else the job has set it meanwhile, or has a shorter one
                _switch_within(self._jobs_switch_s)

    def stop(self) -> None:
        """Stop sampling."""
        self._over = True
        self.pause()

    def _book(self, step: int) -> None:
        seen, self._pending = self._pending, {}
        now, cpu_ns = self._ended_at or time.perf_counter_ns(), self._cpu_ns
        self.wall_ns += now - self._step_began
        self._sampled.add(now - self._step_began)
        self._time(step, now - self._step_began)
        self.cost_ns += cpu_ns - self._booked_ns
        self._step_began, self._booked_ns = now, cpu_ns
        self.steps += 1
        for stack, samples in list(seen.items()):  # at once: a look may still be adding one
            self.by_step.setdefault(stack, {})[step] = samples
            self.samples += samples

    def _time(self, step: int, ns: int) -> None:
        self.first_step = self.first_step or step
        between = step - self.first_step - len(self.step_ns)
        if between + len(self.step_ns) < MOST_TIMED:
            self.step_ns.extend([None] * between)
            self.step_ns.append(ns)

    def _run(self, beside: SideThread) -> None:
        try:
            quietly(_wake_in_time)
            self._look_until_stopped(beside)
        except BaseException as error:
            self.why_none = f"the sampling failed: {type(error).__name__}"
        finally:
            self._ended_at = time.perf_counter_ns()

    def _look_until_stopped(self, beside: SideThread) -> None:
        now, look, interval = time.perf_counter_ns(), 0, float(FIRST_INTERVAL_NS)
        counted_to = float(now)
        while now - self._step_began < LONGEST_STEP_NS:
            look += 1
            spread = look * _GOLDEN % 1
            due = counted_to + interval * (0.5 + spread)
            if beside.wait(max(due - now - NARROW_NS, 0) / 1e9):
                return
            with self._narrow():
                if beside.wait(NARROW_NS * (0.5 + spread) / 1e9):
                    return
            now = time.perf_counter_ns()
            samples = max(round((now - counted_to) / interval), 1)
            counted_to += samples * interval
            stack, pending = self._look(), self._pending
            pending[stack] = pending.get(stack, 0) + samples
            self._cpu_ns, now = time.thread_time_ns(), time.perf_counter_ns()
            interval = self._interval(self._cpu_ns / look)

    @contextmanager
    def _narrow(self) -> Iterator[None]:
        """Wait for the interpreter hardly at all, unless the job has set another interval meanwhile."""
        mine = _switches_within(SWITCH_S)
        if mine:
            _switch_within(NARROW_S)
        try:
            yield
        finally:
            if mine and _switches_within(NARROW_S):
                _switch_within(self._jobs_switch_s if self._beside is None else SWITCH_S)

    def _interval(self, cost_ns: float) -> float:
        """Nanoseconds to the next sample, where a look takes so many."""
        share, least = (_FIRST_COST, FIRST_INTERVAL_NS) if self.samples < FIRST else (_COST, INTERVAL_NS)
        least = least if self.samples < ENOUGH else LONGEST_INTERVAL_NS
        return min(max(cost_ns / share, least), LONGEST_INTERVAL_NS)

    def look(self) -> tuple[int, ...]:
        """The current stack, innermost first: for each frame its code's identity and its position."""
        return self._look()

    def _look(self) -> tuple[int, ...]:
        stack: list[int] = []
        codes = self.codes
        frame = sys._current_frames().get(self._thread)
        while frame is not None and len(stack) < 2 * DEEPEST:
            code = frame.f_code
            identity = id(code)
            if identity not in codes:
                module = dict.get(frame.f_globals, "__name__")
                codes[identity] = code, module if type(module) is str else ""
            stack.append(identity)
            stack.append(frame.f_lasti)
            frame = frame.f_back
        return tuple(stack)


def _wake_in_time() -> None:
    """Have Linux wake this thread within a microsecond, and not within fifty: that is longer than `SWITCH_S`."""
    import ctypes

    ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, ctypes.c_ulong(1000))


def _switches_within(seconds: float) -> bool:
    return abs(sys.getswitchinterval() - seconds) < 1e-6


def _switch_within(seconds: float) -> None:
    sys.setswitchinterval(seconds + 5e-7)  # it is cut to whole microseconds


def why_not() -> str:
    """Why no stack can be sampled here, "" if one can."""
    if not hasattr(sys, "_current_frames"):
        return "this Python does not show its threads' frames"
    running_alone = getattr(sys, "_is_gil_enabled", None)
    if running_alone is not None and not running_alone():
        return "this Python runs its threads at once, and a stack changes while it is looked at"
    return ""
