"""Capture through torch.profiler: one window of steps, one trace file per rank, never an error in the training loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from .aside import aside
from .forks import profiler_started
from .guard import guarded, say
from .ranges import Range
from .trace_file import write_trace


class Capture:
    """One profiled window; `with` opens it and `step()`, called at the end of each training step, moves it on.

    Nothing the profiler raises reaches the training loop: it is said once on stderr and the capture turns itself off.
    """

    def __init__(self, out_dir: str | os.PathLike[str], wait: int, warmup: int, active: int) -> None:
        self.path = Path(out_dir) / f"rank{_rank()}.json.gz"
        self._window = (wait, warmup, active)
        self._profiler: Any = None
        self._written = False

    def __enter__(self) -> Capture:
        self._guarded(self._start)
        return self

    def step(self) -> None:
        """Say that one training step (one optimizer step) has ended."""
        if self._profiler is not None:
            self._guarded(self._profiler.step)
            if self._written:
                self._guarded(self._stop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._profiler is not None:
            self._guarded(self._stop)
            if not self._written:
                say(f"no trace written: the loop ended before step {sum(self._window[:2]) + 1}, the first recorded")

    def _start(self) -> None:
        from torch.autograd import _profiler_enabled
        from torch.profiler import ProfilerActivity, schedule, supported_activities
        from torch.profiler import profile as torch_profile

        if _profiler_enabled():
            raise RuntimeError("another profiler is running in this process")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        wait, warmup, active = self._window
        wanted = {ProfilerActivity.CPU, ProfilerActivity.CUDA}
        profiler = torch_profile(
            activities=wanted & set(supported_activities()),
            schedule=schedule(wait=wait, warmup=warmup, active=active, repeat=1),
            on_trace_ready=self._write,
            record_shapes=True,
        )
        profiler_started(lambda: self._profiler is not None)
        profiler.start()
        self._profiler = profiler

    def _write(self, profiler: Any) -> None:
        """Called by the profiler, on the training thread, when the window closes."""
        if profiler.step_num <= sum(self._window[:2]):  # stopped before one whole step was recorded
            return
        aside(lambda: write_trace(profiler, self.path))
        self._written = True

    def _stop(self) -> None:
        profiler, self._profiler = self._profiler, None
        profiler.stop()

    def _guarded(self, call: Callable[[], object]) -> None:
        guarded(call, "capture stopped", self._failed)

    def _failed(self, _why: str) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is not None:  # leave none running behind a failed capture: a second one could not start
            profiler.on_trace_ready = None
            profiler.stop()


def profile(
    out_dir: str | os.PathLike[str], warmup: int = 1, active: int = 3, wait: int = 0
) -> AbstractContextManager[Capture]:
    """Profile `active` steps, after `wait` + `warmup`, into `out_dir`/rank{RANK}.json.gz (RANK: environment, else 0).

    A loop that ends inside the window leaves the steps it reached.
    """
    return Capture(out_dir, wait, warmup, active)


def range(name: str) -> AbstractContextManager[None]:
    """Name the block in the trace, for Kineto and for NVTX; where nobody listens, do nothing."""
    return Range(name)


def _rank() -> int:
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdecimal() else 0

