"""The session inside the training process: counts optimizer steps and captures one window of them.

Hooks tell it when a loop begins, when a step has ended and when the loop is over; it never raises into them.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from . import config as configuration
from .bundle import Bundle
from .clock import StepClock
from .config import Config, rank_and_world
from .endings import SignalGuard
from .guard import guarded, quietly, say, silent, told
from .ranges import StepRange
from .recorder import Recorder
from .seen import Seen
from .window import PROFILED, Window, planned

MOST_WINDOWS = 4  # a search over hyperparameters trains hundreds of times


class Session:
    """One process's captures, one window for each loop.

    Attributes:
        source: who counts the steps: "trainer", "optimizer" or "code"; None between loops.
        seen: what the hooks saw of the job, for the capture facts.
        stop_asked: the window is written and the job is to end.
    """

    def __init__(self, config: Config, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.config = replace(config, out=os.path.abspath(config.out))
        self.source: str | None = None
        self.stop_asked = False
        self.seen = Seen()
        self.window: Window | None = None
        self.recorder: Recorder | None = None
        self.error: str | None = None
        self.bundle: Bundle | None = None
        self.clock = StepClock(clock)
        self._signals = SignalGuard(self._flush_for_signal)
        self._step_range = StepRange()
        self._opened = 0
        self._busy = False
        self._thread = threading.get_ident()
        self._owner = os.getpid()
        atexit.register(self.loop_ended)

    @property
    def phase(self) -> str:
        """Where the running step belongs; "done" when nothing more is to be captured."""
        return self.window.phase if self.window is not None else "done"

    def open_to(self, source: str) -> bool:
        """Whether steps counted by `source` are wanted now."""
        if self.source not in (None, source) or self._owner != os.getpid():
            return False
        return self._opened < MOST_WINDOWS or self.phase != "done"

    def loop_begins(self, source: str, total: int | None = None) -> None:
        """A training loop of `total` optimizer steps (None: unknown) begins."""
        self.loop_ended()
        if not self.open_to(source):
            return
        self.source = source
        self._opened += 1
        self._safely(lambda: self._open(total), "no capture")

    def step_ended(self) -> None:
        """One optimizer step has ended; its own time ends here, before anything the capture does."""
        if self.window is None or self._busy or threading.get_ident() != self._thread:
            return
        self._safely(self._step_ended, "capture stopped")

    def loop_ended(self, why: str = "the loop ended") -> None:
        """The loop is over, in whatever way: writes what the window holds so far."""
        if self._owner != os.getpid() or self._busy:
            return
        if self.window is not None and self.window.phase != "done":
            self._safely(lambda: self._cut_short(why), "capture stopped")
        self.source = None
        self.window = None
        quietly(self._step_range.end)

    def _open(self, total: int | None) -> None:
        self.error, self.bundle, self.recorder = None, None, None
        self.stop_asked = False
        self._thread = threading.get_ident()
        _, world_size = rank_and_world()
        self.window = Window(planned(self.config, world_size, total))
        self.clock.restart()
        if self.window.phase in PROFILED:
            self._arm()

    def _step_ended(self) -> None:
        window = self.window
        assert window is not None
        before = window.phase
        window.step_ended(self.clock.step_ended(before))
        if before in PROFILED and self.recorder is not None:
            self.recorder.step()
        if window.phase != before:
            self._moved(before, window.phase)
        self._step_range.next(recorded=window.phase not in PROFILED)
        self.clock.step_begins()

    def _moved(self, before: str, after: str) -> None:
        if after in PROFILED and before not in PROFILED:
            self._arm()
        elif before in PROFILED and after not in PROFILED:
            self._disarm()
        if after == "done":
            self._finish()

    def _arm(self) -> None:
        assert self.window is not None
        rank, world_size = rank_and_world()
        self.bundle = Bundle(self.config.out, rank, world_size)
        self.recorder = Recorder(self.bundle.trace, self.window.plan.warmup, self.window.plan.active)
        self._signals.hold()
        self.recorder.start(lambda: self.loop_ended("the job started a profiler of its own"))

    def _disarm(self) -> None:
        self._signals.release()
        if self.recorder is not None:
            self.recorder.stop()

    def _finish(self) -> None:
        from .capture_facts import facts

        bundle = self.bundle
        if bundle is not None:
            with silent():
                guarded(lambda: bundle.write_capture(facts(self)), "capture facts not written")
            guarded(lambda: bundle.finish(self.error), "no marker written")
            self.stop_asked = self.config.stop and self.error is None
        self.bundle = None

    def _cut_short(self, why: str) -> None:
        window = self.window
        assert window is not None
        phase, window.phase = window.phase, "done"
        if phase in PROFILED:
            self._disarm()
        if self.recorder is None or not self.recorder.written:
            self.error = f"{why} after {window.count} steps, before a step was recorded"
            say(f"no trace written: {self.error}")
            if self.bundle is None and window.count:
                self.bundle = Bundle(self.config.out, *rank_and_world())
        self._finish()

    def _safely(self, call: Callable[[], None], doing: str) -> None:
        """Run a part of the capture; an error ends the capture, and training goes on."""
        self._busy = True
        try:
            call()
        except Exception as error:
            self.error = f"{doing}: {told(error)}"
            say(self.error)
            self._abandon()
        finally:
            self._busy = False

    def _abandon(self) -> None:
        if self.window is not None:
            self.window.phase = "done"
        recorder = self.recorder
        quietly(self._signals.release)
        if recorder is not None:
            quietly(recorder.abort)
        quietly(self._finish)

    def _flush_for_signal(self, name: str) -> None:
        self.loop_ended(name)


def session() -> Session | None:
    """The process's session, built from PYTHON_DIAGNOSE on first use; None when nothing is to be captured."""
    global _session, _looked
    if not _looked:
        _looked = True
        guarded(_build, "no capture")
    return _session


def configure(config: Config) -> Session:
    """A session for in-code use, in the place of the environment's; one that is capturing stays."""
    global _session, _looked
    _looked = True
    if _session is None or _session.phase == "done":
        _session = Session(config)
        _forget_in_children()
    return _session


def _build() -> None:
    global _session
    config = configuration.from_environment()
    if config is not None:
        _session = Session(config)
        _forget_in_children()


def _forget() -> None:
    global _session, _looked
    _session, _looked = None, True


def _forget_in_children() -> None:
    """A forked DataLoader worker is no training process."""
    register: Any = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=_forget)


_session: Session | None = None
_looked = False
