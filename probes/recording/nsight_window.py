"""One window of steps recorded by Nsight Systems, which driver calls start and stop: torch's profiler stays off."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..config import Config
from ..limits.allowance import Allowance
from ..window import Plan
from .recorder import Recorder


class NsightWindow:
    """Has nsys record `active` steps after `warmup` others; as a `Recorder`, it belongs to the training thread.

    nsys waits for it with `--capture-range=cudaProfilerApi`, and writes the report itself.

    Attributes:
        active: steps that are recorded.
        running: nsys is to record, or will be.
        recorded: a step was recorded, or a part of one.
        settings: none of torch's profiler.
        left_out: nothing is left out by choice.
        rests: never; there is no trial.
    """

    left_out = ""
    rests = False

    def __init__(self, warmup: int, active: int) -> None:
        self.active = active
        self.running = self.recorded = False
        self.settings: dict[str, object] = {}
        self._warmup, self._steps = warmup, 0

    @property
    def holds_a_step(self) -> bool:
        """Whether a whole step is recorded."""
        return self._steps > self._warmup

    def start(self, _give_way: Callable[[], object], _step: int) -> None:
        """Begin the warm-up; a profiler of the job disturbs nothing here."""
        self.running = True
        self._record_if_due()

    def step(self) -> None:
        """Count a step of the window."""
        if self.running:
            self._steps += 1
            self._record_if_due()

    def stop(self) -> None:
        """End the recording, when the device has done what was launched in it."""
        cuda = _cuda() if self.running and self.recorded else None
        try:
            if cuda is not None:
                cuda.synchronize()
        finally:
            self.abort()

    def abort(self) -> None:
        """End the recording at once, since the job's launched work may never end."""
        cuda = _cuda() if self.running and self.recorded else None
        self.running = False
        if cuda is not None:
            cuda.cudart().cudaProfilerStop()

    def write(self) -> None:
        """Do nothing: nsys writes."""

    def still_ours(self) -> None:
        """Do nothing: nothing can take the session from nsys."""

    def _record_if_due(self) -> None:
        if self._steps == self._warmup:
            self.recorded = True
            cuda = _cuda()
            if cuda is not None:
                cuda.cudart().cudaProfilerStart()


def _cuda() -> Any:
    """torch.cuda if it is in use, else None, since asking the driver would open the device."""
    torch: Any = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


AnyRecorder = Recorder | NsightWindow


def recorder_of(config: Config, trace: Path, plan: Plan, allowance: Allowance, stacks: bool) -> AnyRecorder:
    """The recorder of the planned window: torch's profiler into `trace`, with `stacks` or not, or Nsight Systems."""
    if config.nsight:
        return NsightWindow(plan.warmup, plan.active)
    return Recorder(trace, plan.warmup, plan.active, allowance, stacks)
