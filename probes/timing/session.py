"""The session of a run with continuous timing: between windows it times steps and does nothing else."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..bundle.rank_files import write_run_time
from ..config import Config, rank_and_world_size
from ..cuda_graphs import capturing
from ..guard import guarded, quietly, say
from ..held.watch import HoldingsWatch
from ..machine.now import Machine, machine_of, unread
from ..machine.sampling import Reader
from ..protocol import ARMED, BY_TRAINER, JOBS_PROFILER, MANY_BATCHES, SCRATCH, STEP_LOG, WINDOW_FOLDER
from ..recording.clock import Mark, StepClock
from ..recording.other_profilers import signs
from ..recording.run_time import run_time
from ..session import Session
from ..threaded import run_in_thread
from ..window import PROFILED, SAMPLING, planned
from .agreement import Agreement
from .arming import Arming
from .background import Background
from .long_step import LongStepWatch
from .machine_log import MachineLog
from .pulse import pulse_of
from .schedule import Schedule
from .signals import SignalFlag
from .step_log import StepLog
from .triggers import Triggers

MOST_LOOPS = 1000
MOST_FAILURES = 5
ENDS_WITHIN_S = 5.0


class TimingClock(StepClock):
    """A step clock that records no device events between windows; `last_ns` is the last step's time, 0 if unknown."""

    last_ns = 0
    armed = True

    def step_ended(self, phase: str, number: int = 0) -> int:
        """End a step as a clock of one window does, and keep its time."""
        self.last_ns = super().step_ended(phase, number)
        return self.last_ns

    def step_passed(self, phase: str) -> None:
        """Pass a step as a clock of one window does, without a time."""
        self.last_ns = 0
        super().step_passed(phase)

    def underway_ns(self) -> int | None:
        """Nanoseconds since the running step began; None if that was not seen."""
        began = self.began
        return None if began is None else self.now() - began[0]

    def _mark(self) -> Mark:
        return (self.now(), None) if self.armed else super()._mark()


class TimingSession(Session):
    """Opens window after window in each loop, in folders of their own below that of the run.

    If it fails, windows end first, then step times, and never the job.
    """

    def __init__(self, config: Config, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        super().__init__(config, clock)
        self.clock: TimingClock = TimingClock(clock)
        self._asked = Triggers.of(config.armed or {})
        self._arming: Arming | None = None
        self._beside: Background | None = None
        self._signal: SignalFlag | None = None
        self._machine_log = MachineLog()
        self._machine: Reader | None = None
        self._is_machine_unread = False
        self._holdings: HoldingsWatch | None = None
        self._is_quiet = False
        self._failures = 0

    @property
    def phase(self) -> str:
        """The phase of the open window; "armed" while none is open."""
        if self._arming is not None and super().phase == "done":
            return ARMED
        return super().phase

    def open_to(self, source: str) -> bool:
        """Whether the session takes this source, as one that captures a single window does, but for more loops."""
        return self.takes(source) and (self._opened < MOST_LOOPS or self.phase != "done")

    def step_ended(self) -> None:
        """End a step as a session of one window does; between windows a short step is only noted if nothing is due.

        Whatever runs once in a step runs with cold caches, ten times as long as in a row. So what is not needed at once
        waits for some steps, and this method calls next to nothing.
        """
        arming, clock = self._arming, self.clock
        began = clock.began
        if self._is_quiet and arming is not None and began is not None and not self._busy:
            now = clock.now()
            if (
                now < arming.quiet_until_ns
                and now - began[0] <= arming.quiet_below_ns
                and arming.number + 1 < arming.quiet_until
                and not arming.heard
                and not self._prepared_profilers
                and not self._profiler_is_on()
                and threading.get_ident() == self._thread
            ):
                clock.began = (now, None)
                arming.number += 1
                arming.noted_ns.append(now)
                return
        super().step_ended()

    def loop_ended(self, why: str = "the loop ended", *, broke: bool = False) -> None:
        """End the loop, or only the window if a profiler of the job or a long evaluation ends it."""
        if self._owner != os.getpid() or self._busy or capturing():
            return
        source = self.source
        super().loop_ended(why, broke=broke)
        if self._arming is not None and why in (JOBS_PROFILER, MANY_BATCHES):
            self.source = source
        else:
            self._safely(lambda: self._disarmed(why), "capture stopped")

    def _open(self, total: int | None, done: int) -> None:
        rank, world_size = rank_and_world_size()
        begins = {"rank": rank, "world_size": world_size, "done": done, "host": platform.node()[:200]}
        if total is not None and self.source == BY_TRAINER:  # others know one pass over their data, and not how many
            begins["total"] = done + total
        path = os.path.join(self.config.out, STEP_LOG.format(rank))
        log = run_in_thread(lambda: StepLog(path, begins))
        agreement = Agreement(Path(self.config.out) / SCRATCH, rank)
        guarded(lambda: run_in_thread(agreement.begins), "windows cannot be announced to other ranks")
        schedule = Schedule(self._asked, planned(replace(self.config, at_step=1 << 40), world_size), done)
        self._signal = self._listening(agreement.leads)
        looks = LongStepWatch(threading.get_ident(), self.clock.underway_ns)
        arming = Arming(
            self._asked,
            schedule,
            log,
            agreement,
            signal=self._signal,
            long_step=looks,
            pulse=run_in_thread(lambda: pulse_of(self.config, rank)),
            done=done,
            alone=world_size == 1,
            deep=self.config.deep,
        )
        self._beside = Background(*self._told(arming, rank))
        self._beside.start()
        self._arming, self._thread, self._passed = arming, threading.get_ident(), False
        self._is_machine_unread = False
        self._holdings = quietly(  # type: ignore[assignment]
            lambda: HoldingsWatch(arming.note_reading, lambda: arming.number, lambda: _goodput(arming))
        )
        self._profiler_is_on, self._prepared_profilers = signs()
        self.clock.armed = True
        self.clock.restart()

    def _told(self, arming: Arming, rank: int) -> tuple[Callable[[], object], Callable[[], object]]:
        """The turn and the end of the thread beside: with lines of figures where no loggers of the loop take them."""
        if not self.config.log or rank or self.logs_itself:
            return arming.turn, arming.close
        from ..reporting.live_lines import LiveLines  # a job without it does not pay for its import

        lines = LiveLines(self.config.out, self.outcome.written, self._mark_of_last, self.machine_now)

        def turn() -> None:
            lines.turn()
            arming.turn()

        def close() -> None:
            lines.close()
            arming.close()

        return turn, close

    def machine_now(self) -> Machine:
        """The last readings of this process and its GPU in this loop."""
        arming, machine = self._arming, self._machine
        if arming is None:
            return unread()
        why = "the GPU is not read yet" if machine is None else machine.why_none or machine.why_no_gpu
        return machine_of(arming.held, arming.gauges, why)

    def _mark_of_last(self) -> tuple[int, int] | None:
        """The steps done and when the last one ended; None in a window and where the steps are not timed."""
        arming, began = self._arming, self.clock.began
        if arming is None or began is None or self._busy or self.phase != ARMED or self._passed:
            return None
        return arming.number, began[0]

    def _listening(self, says: bool) -> SignalFlag | None:
        if self._asked.signal is None:
            return None
        flag = SignalFlag(self._asked.signal)
        refused = flag.install()
        if refused and says:
            say(f"no signal asks for windows: {refused}")
        return None if refused else flag

    def _step_unseen(self) -> None:
        arming, phase = self._arming, self.phase
        assert arming is not None
        self._is_quiet = False
        if phase == ARMED:
            self.clock.step_is_underway()
        else:
            super()._step_unseen()
        arming.step_ended(0, phase in PROFILED)

    def _step_ended(self) -> None:
        arming, phase = self._arming, self.phase
        assert arming is not None
        self._is_quiet = False
        try:
            if phase == ARMED:
                self._timed()
            else:
                super()._step_ended()
                self._leave_no_range()
        finally:
            arming.step_ended(self.clock.last_ns, phase in PROFILED)
        if self.phase in (ARMED, SAMPLING) and not self._passed:
            self._open_what_is_due(arming)
        if self._holdings is not None and self.phase in (ARMED, SAMPLING) and not self._passed:
            self._holdings.step_ended()
        if self.phase == ARMED and not self._passed:
            self.clock.step_begins()
            self._rests(arming)

    def _rests(self, arming: Arming) -> None:
        began = self.clock.began
        if began is not None:
            arming.rests(began[0])
            if self._holdings is not None:
                arming.quiet_until = min(arming.quiet_until, self._holdings.due)
            self._is_quiet = True

    def _timed(self) -> None:
        """Time a step that ended between windows; it gets no time if a profiler of the job was on."""
        before, self._passed = self._passed, self.beside_a_profiler()
        if before or self._passed:
            self.clock.step_passed(ARMED)
            if self._machine is not None:
                quietly(self._machine.stop)  # it gave way, or is to
                self._machine = None
        else:
            self.clock.step_ended(ARMED)
            self._finish()  # of a window that was cut
            if not self._is_machine_unread and (self._machine is None or not self._machine.reads):
                self._read_machine(self._arming)

    def _read_machine(self, arming: Arming | None) -> None:
        """Read the machine from the end of a step, when the GPU is known, until the loop or the reading ends.

        The reading ends when the job starts a profiler. A reader that fails to start is not tried again in this loop:
        each attempt would be in a step.
        """
        assert arming is not None
        reader = self._machine = self._machine_log.reader(arming.note_reading, lambda: arming.number)
        guarded(reader.start, "the machine is not read")
        self._is_machine_unread = not reader.reads
        if self._is_machine_unread:
            arming.machine_unread(reader.why_none)

    def _open_what_is_due(self, arming: Arming) -> None:
        if not arming.is_due():
            return
        if self.phase == SAMPLING:
            self._sampled()
        first = arming.opens()
        if first is None:
            return
        plan = planned(replace(self.config, at_step=first), rank_and_world_size()[1], None, arming.number)
        self.folder = os.path.join(self.config.out, WINDOW_FOLDER.format(first))
        self.objects.loop_begins()
        self._is_second = arming.opens_deep
        self.clock.armed = False
        self._plan(replace(plan, cooldown=1, control_after=max(self.config.control, 0)), arming.number)

    def _leave_no_range(self) -> None:
        """End the range of the step: between windows a step has none."""
        if self.phase == ARMED:
            quietly(self._step_range.end)

    def _finish(self) -> None:
        ends, files = self.window is not None and self.window.phase == "done", self.outcome.files
        super()._finish()
        if ends and self.window is None and self._arming is not None:
            self.clock.armed = True
            self._arming.closed(None if files is None else files.folder.name, self.outcome.error)
            if self.outcome.disk_is_full:
                self._arming.opens_no_more()
                say("no more windows open, since the disk has no space for them: step times alone are taken")

    def _tell_run_time(self, facts: dict[str, object] | None) -> None:
        """Write where the time of the process went beside its step times: it is of no window."""
        if facts is not None and self._opened:
            folder, rank = Path(self.config.out), rank_and_world_size()[0]
            quietly(lambda: self.outcome.beside(lambda: write_run_time(folder, rank, facts)))

    def _cut_short(self, why: str) -> None:
        if self.phase != ARMED:
            super()._cut_short(why)

    def _abandon(self) -> None:
        super()._abandon()
        self._failures += 1
        if self._failures >= MOST_FAILURES or self._arming is None:
            self._disarmed("capture stopped")

    def _disarmed(self, why: str) -> None:
        """End the timing of steps and write the rest, unless the file system hangs."""
        self._is_quiet = False
        arming, beside, self._arming = self._arming, self._beside, None
        machine, self._machine = self._machine, None
        holdings, self._holdings = self._holdings, None
        if holdings is not None:
            quietly(holdings.stop)
        if machine is not None:
            quietly(machine.stop)
            if arming is not None and machine.why_none and not self._is_machine_unread:
                arming.machine_unread(machine.why_none)
        if self._signal is not None:
            self._signal.restore()
        if arming is not None and beside is not None:
            arming.ended(why)
            if not beside.stop(ENDS_WITHIN_S):
                say("the last step times are not written: the file system takes too long")


def _goodput(arming: Arming) -> dict[str, object]:
    """The goodput so far, for the step log."""
    spent = run_time.goodput(arming.usual_ns)
    return {} if spent is None else {"goodput": spent}
