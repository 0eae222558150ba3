"""Break off a session: by an error of its own, which ends the capture alone, or by an exception of the job's."""

from __future__ import annotations

import sys
from collections.abc import Callable

from .bundle.outcome import Outcome
from .guard import described, quietly, say
from .interrupts import of_the_job
from .recording import other_profilers
from .recording.clock import StepClock
from .recording.nsight_window import AnyRecorder
from .recording.range_times import times
from .stacks.sampling import StackSampler
from .window import PROFILED, Window


class BreaksOff:
    """The part of a `Session` that runs its other parts and breaks off at an error."""

    window: Window | None
    recorder: AnyRecorder | None
    outcome: Outcome
    clock: StepClock
    sampler: StackSampler
    _busy: bool

    @property
    def phase(self) -> str:
        """Phase of the running step; "done" if nothing more is to be captured."""
        return self.window.phase if self.window is not None else "done"

    def beside_a_profiler(self) -> bool:
        """Whether a profiler of the job runs: then steps are only counted, and the trace is the job's alone."""
        return other_profilers.running()

    def _finish(self) -> None:
        raise NotImplementedError

    def _safely(self, call: Callable[[], None], doing: str) -> None:
        """Run a part of the capture; an error ends the capture, and training goes on."""
        handled = sys.exc_info()[1]
        began = None if self._busy else times.look()
        self._busy = True
        try:
            call()
        except BaseException as error:
            if (interrupt := of_the_job(error, handled)) is not None:
                self._interrupted(interrupt)
                if interrupt is error:
                    raise
                raise interrupt from None
            self.outcome.error = why = f"{doing}: {described(error)}"
            say(why)
            self.outcome.meets(error)
            self._abandon()
        finally:
            self._busy = False
            if began is not None:
                times.own(began)

    def _interrupted(self, interrupt: BaseException) -> None:
        """Stop a running profiler when an exception of the job passes through; files wait for the exit."""
        if self.phase in PROFILED or (self.recorder is not None and self.recorder.running):
            name = type(interrupt).__name__
            self.outcome.error = f"the window was cut by {name}, raised by a signal handler of the job"
            self._stop_all()

    def _abandon(self) -> None:
        self._stop_all()
        if not self.beside_a_profiler():
            quietly(self._finish)

    def _stop_all(self) -> None:
        if self.window is not None:
            self.window.phase = "done"
        for stop in (self.sampler.stop, self.clock.rest):
            quietly(stop)
        if self.recorder is not None:
            quietly(self.recorder.abort)
