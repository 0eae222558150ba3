"""One armed loop of one rank: its steps are logged and judged, and its windows agreed on with the other ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..guard import described, guarded, quietly, say
from .agreement import Agreement
from .background import EVERY_S
from .long_step import LongStepWatch
from .pulse import Pulse
from .schedule import Schedule
from .signals import SignalFlag
from .slowness import Slowness
from .step_log import StepLog
from .triggers import Triggers, Wanted

AHEAD_S = 4 * EVERY_S  # by then every rank has read the announcements
PATIENCE_TURNS = 3  # that long a rank waits for rank 0 to see the same, before it asks
TOGETHER_NS = 250_000_000  # short steps are judged together: code that runs once in a while is slow to run
_AHEAD_STEPS = 50  # if no step has a time yet
WITH_STACKS = "again, with stacks"
_NO_JUDGE = 2.0  # no window opens for slow steps, and those in windows are reported all the same


class Arming:
    """Decides when windows open; the training thread calls `step_ended` to `closed`, the background thread `turn`.

    Args:
        asked: the triggers.
        schedule: of the windows.
        log: of the step times.
        agreement: with the other ranks.
        signal: requests windows; None without one.
        long_step: looks at the running step.
        pulse: reports the progress of the job; None if nobody asks for it.
        done: steps that the job has behind it.
        alone: there is no other rank.
        deep: once a slow step that comes again was recorded, a window with stacks is to hold its next one.

    Attributes:
        number: steps that the job has behind it.
        held: what the process holds, as last read.
        gauges: how the machine runs, likewise.
        heard: what the background thread has heard of windows: which are asked for, and which were announced, or, on
            rank 0, could not be.
        noted_ns: when the last steps ended that were only noted, by the clock of the steps; each began where the one
            before it ended, the first at `noted_from_ns`.
        quiet_until_ns: until then a step may only be noted,
        quiet_until: before the end of that step, and
        quiet_below_ns: if it took no longer.
        opens_deep: the window that has begun last is to be with stacks.
    """

    def __init__(
        self,
        asked: Triggers,
        schedule: Schedule,
        log: StepLog,
        agreement: Agreement,
        *,
        signal: SignalFlag | None,
        long_step: LongStepWatch,
        pulse: Pulse | None = None,
        done: int,
        alone: bool,
        deep: bool = False,
    ) -> None:
        self.number = done
        self.noted_ns: list[int] = []
        self.noted_from_ns = self.quiet_until_ns = 0
        self.quiet_until = self.quiet_below_ns = 0.0
        self._asked, self._schedule, self._log, self._agreement = asked, schedule, log, agreement
        self.held: dict[str, float] = {}
        self.gauges: dict[str, float] = {}
        self._signal, self._long_step, self._pulse, self._alone = signal, long_step, pulse, alone
        self._slowness = Slowness(asked.when_slow or _NO_JUDGE)
        self._recorded: dict[int, int] = {}
        self._deep, self._deepened = deep, set[int]()
        self.opens_deep = False
        self._over = False
        self.heard: list[Wanted | tuple[int, str]] = []  # by the background thread
        self._to_tell: list[tuple[int, str]] = []  # for it
        self._known: set[int] = set()
        self._asking: Wanted | None = None
        self._patience = 0

    def step_ended(self, ns: int, profiled: bool) -> None:
        """Note a step that has ended after `ns`, 0 if unknown; earlier steps that were only noted are judged first."""
        self._judge_noted()
        self.number += 1
        self._log.add(self.number, ns, profiled)
        if profiled:
            self._recorded[self.number] = ns
        elif ns:
            self._judge(self.number, ns)
        while self.heard:
            heard = self.heard.pop(0)
            if isinstance(heard, Wanted):
                self._want(heard)
            elif self._agreement.leads:
                self._schedule.withdrawn(heard[0], self.number)
            else:
                self._schedule.announced(*heard)

    def note_reading(self, line: dict[str, Any]) -> None:
        """Take a reading of the process or the machine, a line of the log; any thread may."""
        self.held.update(line.get("held", {}))
        self.gauges = line.get("gauges", self.gauges)
        self._log.note_reading(line)

    @property
    def usual_ns(self) -> int:
        """The usual time of a step, 0 if unknown."""
        return self._slowness.usual.median

    def rests(self, now_ns: int) -> None:
        """Note that nothing is due: from now on steps may only be noted, for a while."""
        self.noted_from_ns, self.quiet_until_ns = now_ns, now_ns + TOGETHER_NS
        self.quiet_until = self._schedule.quiet_until(self.number)
        self.quiet_below_ns = self._slowness.slow_from()

    def is_due(self) -> bool:
        """Whether to prepare a window for the next step; windows that were announced too late are reported."""
        for first, why in self._schedule.missed(self.number):
            self._log.tell("missed", first=first, why=why)
            say(f"the window at step {first} was announced too late for this rank, which is at step {self.number}")
        return self.number >= self._schedule.quiet_until(self.number)

    def opens(self) -> int | None:
        """The first recorded step of the window that is due; it begins after the one before it has closed."""
        due = self._schedule.due(self.number)
        if due is None:
            return None
        self._recorded = {}
        self._log.tell("window", first=due[0], why=due[1])
        self.opens_deep = due[1].endswith(WITH_STACKS)
        return due[0]

    def closed(self, folder: str | None, error: str | None) -> None:
        """Log the window that has closed; its files are in `folder`, if there are any."""
        first = self._schedule.begun
        steps = {number: ns for number, ns in self._recorded.items() if first is not None and number >= first}
        slow = self._slowness.recorded(steps)
        self._log.tell("closed", first=first, folder=folder, error=error, slow=slow)
        self._schedule.closed(self.number)
        if self._deep and slow is not None:
            self._look_deeper(slow, self._slowness.period)

    def _look_deeper(self, slow: int, period: int) -> None:
        """Ask for a window with stacks at the next slow step, once for each period."""
        if period and period not in self._deepened and self._agreement.leads:
            self._deepened.add(period)
            self._want(Wanted(f"a slow step comes every {period} steps, {WITH_STACKS}", slow + period, period))

    def opens_no_more(self) -> None:
        """Let no further window open, whatever asks for one."""
        self._schedule.ends()

    def machine_unread(self, why: str) -> None:
        """Log why the machine is not read, or no longer read."""
        self._log.tell("no_readings", why=why)

    def ended(self, why: str) -> None:
        """Note the end of the loop: the next turn is the last."""
        self._judge_noted()
        self._log.tell("end", why=why, lost=self._log.lost)
        self._over = True

    def turn(self) -> None:
        """Do all work on files, and look at a step that takes too long.

        Raises:
            OSError: the step times cannot be written; all other work is done.
        """
        quietly(self._look)
        quietly(self._beat)
        try:
            self._log.write(to_the_end=self._over)
        finally:
            self._hear()

    def close(self) -> None:
        """Close the log and the pulse."""
        self._log.close()
        if self._pulse is not None:
            self._pulse.close()

    def _hear(self) -> None:
        if self._signal is not None and self._signal.came:
            self._signal.came = False
            self.heard.append(Wanted("asked for by a signal"))
        if self._agreement.leads:
            while self._to_tell:
                self._announce(*self._to_tell.pop(0))
            self.heard += self._agreement.asks()
        else:
            news = {first: why for first, why in self._agreement.announced().items() if first not in self._known}
            self._known |= set(news)
            self.heard += list(news.items())
            self._ask_if_nobody_else_does()

    def _announce(self, first: int, why: str) -> None:
        """Announce the window to the other ranks; if that fails, it does not open here alone."""
        try:
            self._agreement.announce(first, why)
        except OSError as error:
            if not self._alone:
                say(f"no window opens at step {first}, which cannot be announced to other ranks: {described(error)}")
                self.heard.append((first, why))

    def _judge_noted(self) -> None:
        ends_ns, self.noted_ns = self.noted_ns, []
        began_ns = self.noted_from_ns
        for step, end_ns in enumerate(ends_ns, self.number - len(ends_ns) + 1):
            self._log.add(step, end_ns - began_ns, False, (ends_ns[-1] - end_ns) / 1e9)
            self._judge(step, end_ns - began_ns)
            began_ns = end_ns

    def _judge(self, step: int, ns: int) -> None:
        wanted = self._slowness.step_ended(step, ns)
        if wanted is not None and self._asked.when_slow:
            self._want(wanted)

    def _look(self) -> None:
        """Look for a long step, but not while a window is open: writing its files takes time that is no step's."""
        if self._schedule.begun is None:
            seen = self._long_step.look(self.number + 1, self._slowness.usual.median)
            if seen is not None:
                self._log.tell("long", **seen)

    def _beat(self) -> None:
        if self._pulse is not None:
            self._pulse.beat(self.number, self._slowness.usual.median)

    def _want(self, wanted: Wanted) -> None:
        """Place the window if this is rank 0, else leave it to rank 0."""
        if not self._agreement.leads:
            if self._asking is None:
                self._asking, self._patience = wanted, PATIENCE_TURNS
            return
        first = self._schedule.place(wanted, self.number, 0 if self._alone else self._ahead())
        if first is not None:
            self._slowness.answered(wanted)
            self._to_tell.append((first, wanted.why))
            say(f"a window opens at step {first}: {wanted.why}")

    def _ahead(self) -> int:
        median = self._slowness.usual.median
        return round(AHEAD_S * 1e9 / median) + 2 if median else _AHEAD_STEPS

    def _ask_if_nobody_else_does(self) -> None:
        wanted = self._asking
        if wanted is not None and not self._schedule.is_free:
            self._asking = None
        elif wanted is not None and self._patience:
            self._patience -= 1
        elif wanted is not None:
            self._asking = None
            why = f"{wanted.why}, on rank {self._agreement.rank}"
            guarded(lambda: self._agreement.ask(replace(wanted, why=why)), "no window asked for")
