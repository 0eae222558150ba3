"""The position of the window: a count of steps moves it from waiting to done. It knows no profiler and no clock.

Stacks are sampled in its last phase: a short loop, or one of unknown length, loses samples and never its recording.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from statistics import median

from .config import Config
from .protocol import SAMPLE_STEPS_TOGETHER, STEPS

SAMPLING = "sampling"
PHASES = ("waiting", "control", "warmup", "active", "cooldown", "control_after", SAMPLING, "done")
PROFILED = ("warmup", "active")
UNLIMITED = 1 << 40
SETTLED_STEPS = 3
SETTLED_WITHIN = 0.2


@dataclass(frozen=True)
class Plan:
    """Steps in each phase; `waiting` is the maximum, and exact if `fixed`.

    `sampling` is the maximum, and exact if `ends_job`: ranks that end by themselves, or open a second window, do so
    together.
    """

    waiting: int
    control: int
    warmup: int
    active: int
    cooldown: int
    control_after: int
    fixed: bool
    shortened: bool = False
    sampling: int = 0
    ends_job: bool = False


def planned(config: Config, world_size: int = 1, total: int | None = None, done: int = 0) -> Plan:
    """The plan for a loop of `total` steps (None: unknown). A short loop gives up control steps first, recording last.

    `config.at_step` also counts the `done` steps that the job made in an earlier process.

    Several ranks open the window by count alone: ranks that judged step times on their own would open it at different
    steps.
    """
    warmup, active = max(config.warmup, 1), config.steps_of(world_size)
    control = max(config.control, 0)
    waiting = max(config.skip, 1)
    if config.at_step is not None:
        before = max(config.at_step - 1 - done, 0)
        warmup = min(warmup, max(before, 1))
        control = min(control, max(before - warmup - 1, 0))
        waiting = max(before - warmup - control, 0)
    fixed = config.at_step is not None or world_size > 1
    plan = Plan(waiting, control, warmup, active, int(control > 0), control, fixed)
    if total is not None:
        plan = _shortened(plan, max(total, 1), config.at_step is not None)
    together = world_size > 1 and (config.stop or config.deep)
    most = config.sample_steps
    sampling = (SAMPLE_STEPS_TOGETHER if together else UNLIMITED) if most is None else max(most, 0)
    return replace(plan, sampling=sampling, ends_job=together)


def _shortened(plan: Plan, total: int, exact: bool) -> Plan:
    """Cut the plan to `total` steps: waiting first (unless `exact`), then after the window, control, warm-up."""
    length = {phase: getattr(plan, phase) for phase in PHASES[: PHASES.index(SAMPLING)]}
    least = {"waiting": 1, "warmup": 1, "active": 1}
    if exact and plan.waiting + plan.control + plan.warmup < total:
        least["waiting"] = plan.waiting
    shortened = sum(length.values()) > total
    for phase in ("waiting", "control_after", "cooldown", "control", "warmup", "active", "waiting"):
        excess = sum(length.values()) - total
        length[phase] -= min(max(excess, 0), max(length[phase] - least.get(phase, 0), 0))
    for phase in ("waiting", "warmup"):
        if sum(length.values()) > total:
            length[phase] = 0
    return Plan(**length, fixed=plan.fixed or (shortened and length["waiting"] < 2), shortened=shortened)


class Window:
    """Counts ended steps; `phase` is that of the running step.

    Attributes:
        count: steps of this loop that have ended, the `passed` ones among them, which a profiler of the job was on in.
        first_active: the number of the first recorded step, as the job counts; 0 before there is one.
        cut_by: what ended the window before its plan did, "" if nothing did.
        sampled: there are samples enough, or none to be had.
        writing: the trace is still being written, which takes time from the steps: the cooldown lasts until it is.
    """

    def __init__(self, plan: Plan, done: int = 0) -> None:
        self.plan = plan
        self.phase = "waiting"
        self.count = self.passed = 0
        self.first_active = 0
        self.cut_by = ""
        self._done = done
        self.settled = self.sampled = self.writing = False
        self._taken = 0
        self._last: deque[int] = deque(maxlen=SETTLED_STEPS)
        self._advance()

    @property
    def number(self) -> int:
        """Number of steps that the job has done, including those before this loop."""
        return self._done + self.count

    @property
    def is_ahead(self) -> bool:
        """Whether nothing is profiled yet."""
        return self.phase in ("waiting", "control")

    def step_ended(self, ns: int) -> None:
        """Count a step of `ns`. The first one of all, which compiles and allocates, never counts as steady."""
        self.count += 1
        self._taken += 1
        if self.phase == "waiting" and self.count > 1:
            self._last.append(ns)
            self.settled = settled(list(self._last))
        self._advance()

    def step_passed(self) -> None:
        """Count a step that has ended and cannot be measured.

        It moves the window only if steps are counted, not timed, and never to a phase with the profiler on.
        """
        self.count += 1
        self.passed += 1
        if self.plan.fixed:
            self._taken += 1
            self._advance(until=PROFILED if self.is_ahead else ())

    def step_unseen(self) -> None:
        """Count a step at whose end nothing may be done: the window moves as after one that has passed, or stays."""
        self.count += 1
        if self.plan.fixed and self.is_ahead:
            self._taken += 1
            self._advance(until=PROFILED)

    def records(self, steps: int) -> None:
        """Record only `steps` of the steps that the plan records."""
        if steps != self.plan.active:
            self.plan = replace(self.plan, active=steps)

    def what_fits(self) -> str:
        """How many steps the first recorded one needs, and the options of `diagnose run` by which fewer are enough."""
        needed = self.plan.waiting + self.plan.control + self.plan.warmup + 1
        steps = self.number - 1
        if steps < 1:
            return f"the window needs {needed}, and no window fits in one step"
        return f"the window needs {needed}; in so few it opens with --at-step 2 --steps {min(steps, STEPS)}"

    def put_off(self) -> None:
        """Begin the window again with the next step that can be measured, since nothing is recorded yet."""
        self.phase, self._taken = "control", self.plan.control

    def _advance(self, until: tuple[str, ...] = ()) -> None:
        while self.phase != "done" and self._complete():
            following = PHASES[PHASES.index(self.phase) + 1]
            if following in until:
                return
            self.phase = following
            self._taken = 0
            if self.phase == "active":
                self.first_active = self.number + 1

    def _complete(self) -> bool:
        if self._taken >= int(getattr(self.plan, self.phase)):
            return not (self.phase == "cooldown" and self._taken and self.writing)
        if self.phase == SAMPLING:
            return self.sampled and not self.plan.ends_job
        return self.phase == "waiting" and self.settled and not self.plan.fixed


def settled(times: list[int]) -> bool:
    """Whether the last three step times are close to their median and not falling."""
    last = times[-SETTLED_STEPS:]
    if len(last) < SETTLED_STEPS:
        return False
    middle = median(last)
    near = all(abs(ns - middle) <= SETTLED_WITHIN * middle for ns in last)
    falling = last[0] > last[1] > last[2] and last[2] < 0.95 * last[0]
    return near and not falling
