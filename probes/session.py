"""The session inside the training process: counts optimizer steps and captures one window of them.

Hooks call it when a loop begins, when a step has ended and when the loop is over. None of its own errors reaches them;
an exception that a signal handler of the job raises meanwhile does.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from .breaks_off import BreaksOff
from .bundle.outcome import Outcome
from .config import Config, rank_and_world_size
from .cuda_graphs import capturing
from .facts.job_objects import JobObjects
from .facts.when_due import facts_of, samples_of
from .fetches import Fetches
from .guard import guarded, quietly, say
from .hand_over import at_exit
from .interrupts import in_a_handler
from .limits.allowance import Allowance
from .machine.now import Machine, unread
from .protocol import (
    BETWEEN_LOOPS_RANGE,
    BY_BACKWARD,
    BY_OPTIMIZER,
    BY_TRAINER,
    JOBS_PROFILER,
    MANY_BATCHES,
    WINDOW_FOLDER,
)
from .recording import other_profilers
from .recording.clock import StepClock
from .recording.nsight_window import AnyRecorder, recorder_of
from .recording.range_times import times
from .recording.ranges import StepRange
from .recording.run_time import run_time
from .second_window import STEPS, SecondWindow
from .stacks.sampling import StackSampler
from .window import PROFILED, SAMPLING, UNLIMITED, Plan, Window, planned

PATIENCE_S = 0.5  # the training thread waits so long for a trace to be written
_SHOWN_BY_A_STEP = (BY_OPTIMIZER, BY_BACKWARD)  # loops that are seen first where a step of theirs ends
MOST_WINDOWS = 4  # a search over hyperparameters trains hundreds of times


class Session(BreaksOff):
    """One process's captures, one window for each loop.

    Attributes:
        source: what counts the steps: "trainer", "optimizer", "backward" or "code"; None between loops.
        objects: the job's objects that the hooks met, for the capture facts.
        stop_asked: the window is written and the job is to end.
        folder: where the files of a window go, if that is free.
    """

    def __init__(self, config: Config, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.config = replace(config, out=os.path.abspath(config.out))
        self.folder = self.config.out
        self.source: str | None = None
        self.objects = JobObjects()
        self.window: Window | None = None
        self.recorder: AnyRecorder | None = None
        self.outcome = Outcome()
        self.allowance = Allowance(self.config)
        self.clock = StepClock(clock)
        self.sampler = StackSampler(threading.get_ident())
        self._step_range, self._fetches, self._opened = StepRange(), Fetches(), 0
        self._second: SecondWindow | None = None
        self._is_second, self._total = False, 0
        self.stop_asked = self._busy = self._passed = self._spoilt = False
        self._thread, self._owner = threading.get_ident(), os.getpid()
        at_exit(self._at_exit, "capture stopped")

    def open_to(self, source: str) -> bool:
        """Whether steps counted by `source` are wanted now."""
        return self.takes(source) and (self._opened < MOST_WINDOWS or self.phase != "done")

    def takes(self, source: str) -> bool:
        """Whether `source` may count the steps: it does, or nothing does yet and the user asks for no other."""
        asked_of_another = self.config.step_on == BY_BACKWARD != source
        return self.source in (None, source) and self._owner == os.getpid() and not asked_of_another

    @property
    def untouched(self) -> bool:
        """Whether no loop has begun."""
        return not self._opened

    @property
    def logs_itself(self) -> bool:
        """Whether the loop's own loggers get the figures of the steps."""
        return self.source == BY_TRAINER and self.objects.logs_figures

    def machine_now(self) -> Machine:
        """The last readings of this process and its GPU, by a session that makes them while no window is open."""
        return unread()

    def loop_begins(self, source: str, total: int | None = None, done: int = 0) -> None:
        """Begin a training loop of `total` optimizer steps (None: unknown); the job has done `done` steps before."""
        self.loop_ended()
        self._safely(self._finish, "capture stopped")
        if not self.open_to(source) or in_a_handler() or capturing():
            return
        self.source = source
        self._opened += 1
        if source not in _SHOWN_BY_A_STEP:
            times.closed(BETWEEN_LOOPS_RANGE)
            run_time.may_begin()
        untold = self.config.log and self.config.armed is None and not self.logs_itself
        if untold and self._opened == 1 and not rank_and_world_size()[0]:
            say("--log tells nobody of this loop: it is not that of transformers' Trainer; with --arm a file gets it")
        self._safely(lambda: self._open(total, done), "no capture")

    def step_ended(self) -> None:
        """End one optimizer step; its own time ends here, before any work of the capture."""
        run_time.step_ended()
        if self._is_closed():
            return
        if self.phase in PROFILED and in_a_handler():  # a handler exports nothing, and ends no step of the loop
            return
        self._fetches.step_ended()
        self._safely(self._step_unseen if capturing() else self._step_ended, "capture stopped")

    def batch_fetched(self) -> None:
        """Count a batch that a loader has given the training thread; many without a step end the window."""
        if self._is_closed() or capturing() or not self._fetches.one_too_many():
            return
        if self.phase in PROFILED:
            self.loop_ended(MANY_BATCHES)
        elif self.phase == SAMPLING:
            self._safely(self._sampled, "capture stopped")

    def loop_ended(self, why: str = "the loop ended", *, broke: bool = False) -> None:
        """End the loop, however it ended, and write the steps that the window holds so far.

        If it `broke`, by an exception that the job may yet want to handle, files wait for the exit.
        """
        if self._owner != os.getpid() or self._busy or capturing():
            return
        if self.phase != "done":
            self._safely(lambda: self._cut_short(why), "capture stopped")
        if not (broke or self.beside_a_profiler()):
            self._safely(self._finish, "capture stopped")
        if self.source not in (None, *_SHOWN_BY_A_STEP):
            times.opened(BETWEEN_LOOPS_RANGE)
        self.source = None
        for end in (self._step_range.end, self.clock.rest):
            quietly(end)

    def _is_closed(self) -> bool:
        """Whether events of this thread do not concern the window."""
        return self.phase == "done" or self._busy or threading.get_ident() != self._thread

    def _at_exit(self) -> None:
        if self._owner == os.getpid():
            self.loop_ended("the process ended")
            self._safely(self._finish, "capture stopped")
            self._tell_run_time(run_time.facts(ended=True))

    def _tell_run_time(self, facts: dict[str, object] | None) -> None:
        self.outcome.tell_run_time(facts)

    def _open(self, total: int | None, done: int) -> None:
        if self.config.at_step is not None and self.config.at_step <= done:
            say(f"step {self.config.at_step} is over: the job goes on from step {done}")
        world_size = rank_and_world_size()[1]
        self.folder, self._is_second, self._total = self.config.out, False, UNLIMITED if total is None else total + done
        self._second = self._second_window(world_size)
        self._plan(planned(self.config, world_size, total, done), done)

    def _second_window(self, world_size: int) -> SecondWindow | None:
        """The judge of whether a second window follows; None if none may."""
        ends = self.config.stop and not self.config.deep
        return None if ends or self.config.nsight else SecondWindow(self.config.deep, judges=world_size == 1)

    def _plan(self, plan: Plan, done: int) -> None:
        """Begin a window by `plan` with the next step; the job has done `done` steps before."""
        self.outcome.begins()
        self.recorder, self.stop_asked, self._passed, self._spoilt = None, False, False, False
        self._fetches = Fetches()
        self._thread = threading.get_ident()
        self.sampler = StackSampler(self._thread)
        self.window = Window(plan, done)
        self.clock.restart()
        if self.window.phase in PROFILED:
            self._arm()

    def _step_unseen(self) -> None:
        """Discount a step in which the job captures a CUDA graph: a window with it does not measure the loop."""
        assert self.window is not None
        self._spoilt = self.phase in PROFILED
        self._uncounted(self.window)

    def _uncounted(self, window: Window) -> None:
        window.step_unseen()
        self.clock.step_is_underway()

    def _step_ended(self) -> None:
        window = self.window
        assert window is not None
        if self._spoilt:
            self._put_off()
            self._uncounted(window)  # no profiler begins in the call in which one has ended
            return
        if self.recorder is not None:
            self.recorder.still_ours()
        if self._passed or self.beside_a_profiler():
            if self.recorder is not None and self.recorder.rests:
                self._put_off()
            self._pass_over(window)
            return
        before = window.phase
        ns = self.clock.step_ended(before, window.number + 1)
        if self._second is not None and before != "cooldown":
            self._second.step_ended(window.number + 1, 0 if before in PROFILED else ns, before == "active")
        self._step_range.end()  # before the window ends: a range that is open then is in no recording
        if before == SAMPLING:
            window.sampled = self.sampler.step_ended(window.number + 1)
        window.writing = self.outcome.writing
        window.step_ended(ns)
        if before in PROFILED and self.recorder is not None:
            self.recorder.step()
            window.records(self.recorder.active)
        if window.phase != before:
            self._moved(before, window.phase)
        self._step_range.next()
        self.clock.step_begins(self.phase)

    def _pass_over(self, window: Window) -> None:
        """Pass over a step with a profiler of the job, or the one in which that profiler stopped."""
        self._passed = self.beside_a_profiler()
        self.sampler.pause()
        if not window.passed and window.is_ahead:
            say(f"another profiler, the job's own, is on at step {window.number + 1}: the capture waits for its end")
        window.step_passed()
        self.clock.step_passed(window.phase)
        if not self._passed:
            self.clock.step_begins(window.phase)

    def _give_way(self) -> None:
        """Give way to a profiler of the job: a window with a whole step ends here, another begins again afterwards."""
        if self._busy or self.window is None or self.recorder is None or self.recorder.holds_a_step:
            self.loop_ended(JOBS_PROFILER)
            return
        self._safely(self._put_off, "capture stopped")

    def _put_off(self) -> None:
        assert self.window is not None
        assert self.recorder is not None
        self.recorder.abort()
        self.recorder, self._spoilt = None, False
        self.window.put_off()
        self.clock.put_off()

    def _moved(self, before: str, after: str) -> None:
        assert self.window is not None
        if after in PROFILED and before not in PROFILED:
            self._arm()
        elif before in PROFILED and after not in PROFILED:
            self._write(None if self.window.plan.ends_job else PATIENCE_S)
        elif after == "control":
            self.allowance.look(self.window.number)
        if after == SAMPLING:
            self._note_facts()
            other_profilers.tell(self.sampler.pause)
            self.sampler.start()
        if after == "done":
            number = self.window.number
            follows = self._follows(number)
            self._finish()
            if follows is not None:
                self._open_second(follows, number)

    def _follows(self, number: int) -> int | None:
        """The first step of the second window, if one follows this window after step `number`; else None."""
        second = self._second
        recorded = self.recorder is not None and self.recorder.recorded
        first = second.first_step(number, self.config.warmup) if second is not None and recorded else None
        fits = first is not None and first + STEPS - 1 <= self._total
        if second is not None and second.deep and not fits:
            say(f"no second window: after step {number} none fits before the loop ends, or the first has no trace")
        return first if fits else None

    def _open_second(self, first: int, number: int) -> None:
        """Let the window open whose first recorded step is `first`, in a folder within that of the window before."""
        if self.outcome.error is not None or not self.outcome.written:
            return
        self.folder = os.path.join(self.outcome.written[-1].folder, WINDOW_FOLDER.format(first))
        asked = replace(self.config, at_step=first, steps=STEPS, sample_steps=0)
        self.objects.loop_begins()
        self._is_second, self._second = True, None
        self._plan(planned(asked, rank_and_world_size()[1], None, number), number)

    def _sampled(self) -> None:
        """End the sampling: no step follows, and the steps before have samples or not."""
        assert self.window is not None
        self.window.phase = "done"
        self._finish()

    def _arm(self) -> None:
        assert self.window is not None
        if self.outcome.files is None:
            self.outcome.claim(self.folder)
        assert self.outcome.files is not None
        stacks = self.config.deep and self._is_second
        self.recorder = recorder_of(self.config, self.outcome.files.trace, self.window.plan, self.allowance, stacks)
        self.recorder.start(self._give_way, self.window.number + 1)
        self.window.records(self.recorder.active)

    def _write(self, patience_s: float | None = None) -> None:
        if self.recorder is not None:
            self.recorder.stop()
            self.outcome.beside(self.recorder.write, patience_s)

    def _finish(self) -> None:
        """Write all that is due: the trace, the facts, and the marker after which nothing more comes."""
        if self.window is None or self.window.phase != "done" or in_a_handler():  # it follows, at the exit at last
            return
        self.sampler.stop()
        self.outcome.machine.stop()
        guarded(self._write, "no trace written", self.outcome.failed)
        if self.outcome.files is not None:
            self._note_facts()
            sampler, plan, run = self.sampler, self.window.plan, quietly(run_time.facts)
            every = quietly(self.clock.every_step)
            self.outcome.left_out = self.recorder.left_out if self.recorder else ""
            self.outcome.write(
                lambda: {
                    "stack_samples": quietly(lambda: samples_of(sampler, plan.sampling > 0)),
                    "every_step": every,
                    "run_time": run,
                }
            )
            self.stop_asked = self.config.stop and self.outcome.error is None
        self.outcome.files = self.window = None
        self.clock.rest()

    def _note_facts(self) -> None:
        of = {name: getattr(self, name) for name in ("window", "clock", "recorder", "source", "allowance")}
        if not self.beside_a_profiler():
            of["command"] = self.config.command
            self.outcome.note(lambda: facts_of(self.objects, error=self.outcome.error, **of))

    def _cut_short(self, why: str) -> None:
        window = self.window
        assert window is not None
        window.phase, window.cut_by = "done", why
        if self._second is not None and self._second.deep:
            say(f"no second window: {why} before it could begin")
        if self.recorder is not None:
            self.recorder.stop()
        if self._is_second and (self.recorder is None or not self.recorder.recorded):
            if self.config.deep:
                say(f"no second window: {why} before a step of it was recorded")
            if self.outcome.files is None:
                return
            self.outcome.error = f"{why} before a step was recorded"
        elif self.recorder is None or not (self.recorder.recorded or self.recorder.left_out):
            beside = ", while another profiler was running in this process" if self._passed else ""
            needs = "" if beside or self.config.token is None else f": {window.what_fits()}"
            self.outcome.error = f"{why} after {window.count} steps, before a step was recorded{beside}{needs}"
            say(f"no trace written: {self.outcome.error}")
            if self.outcome.files is None and window.count:
                self.outcome.claim(self.folder)
        self._note_facts()
