"""Capture from the code of a script: one window of steps, one trace file per rank, never an error in its loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from ..guard import guarded, quietly, say
from ..protocol import STEPS, TRACE, WAIT_IN_CODE, WARMUP_IN_CODE
from ..threaded import run_in_thread
from .ranges import Range
from .recorder import Recorder


class Capture:
    """One profiled window; `with` opens it and `step()`, called at the end of each training step, moves it on.

    Nothing the profiler raises reaches the training loop: it is printed once on stderr and the capture turns itself
    off.
    """

    def __init__(self, out_dir: str | os.PathLike[str], wait: int, warmup: int, active: int) -> None:
        self.path = Path(out_dir) / TRACE.format(_rank())
        self._window = (wait, warmup, active)
        self._recorder = Recorder(self.path, warmup, active)
        self._steps = 0
        self._over = False

    def __enter__(self) -> Capture:
        if not self._window[0]:
            self._guarded(self._start)
        return self

    def step(self) -> None:
        """Note that one training step (one optimizer step) has ended."""
        if not self._over:
            self._guarded(self._step)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._over:
            self._guarded(self._stop)
            if not self._recorder.written:
                say(f"no trace written: the loop ended before step {sum(self._window[:2]) + 1}, the first recorded")

    def _start(self) -> None:
        run_in_thread(lambda: self.path.parent.mkdir(parents=True, exist_ok=True))
        self._recorder.start(self._stop, self._steps + 1)

    def _step(self) -> None:
        self._steps += 1
        self._recorder.still_ours()
        if self._steps == self._window[0]:
            self._start()
        elif self._recorder.running:
            self._recorder.step()
        if self._steps == sum(self._window):
            self._stop()

    def _stop(self) -> None:
        """Write the recorded steps, if there is at least one."""
        self._over = True
        if self._steps > sum(self._window[:2]):
            self._recorder.stop()
            run_in_thread(self._recorder.write)
        else:
            self._recorder.abort()

    def _guarded(self, call: Callable[[], None]) -> None:
        guarded(call, "capture stopped", self._failed)

    def _failed(self, _why: str) -> None:
        self._over = True
        quietly(self._recorder.abort)


def profile(
    out_dir: str | os.PathLike[str],
    warmup: int = WARMUP_IN_CODE,
    active: int = STEPS,
    wait: int = WAIT_IN_CODE,
) -> AbstractContextManager[Capture]:
    """Profile `active` steps, after `wait` + `warmup`, into `out_dir`/rank{RANK}.json.gz (RANK: environment, else 0).

    A loop that ends inside the window leaves the steps it reached.
    """
    return Capture(out_dir, wait, warmup, active)


def range(name: str) -> AbstractContextManager[None]:
    """Name the block in the trace, for Kineto and for NVTX; if nobody listens, do nothing."""
    return Range(name)


def _rank() -> int:
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdecimal() else 0
