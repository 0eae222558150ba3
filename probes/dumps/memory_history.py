"""Snapshots of the caching allocator for `diagnose memory`: at the first OOM before the window ends, or when asked.

Everything begins when the job itself initialises CUDA, by torch's queue of calls for that moment: asking the device
earlier would initialise it in a process that may still fork. The history of allocations costs some microseconds each,
so it is recorded with `--memory` alone, and bounded.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ..config import Config, from_environment, rank_and_world_size
from ..cuda_graphs import capturing
from ..current_session import session
from ..guard import guarded, quietly, say
from ..hand_over import after_optimizer_steps, at_exit, at_out_of_memory, when_cuda_begins
from ..protocol import MEMORY, MEMORY_AT_OOM, partial
from ..threaded import run_in_thread
from .window_memory import ACTIONS

AFTER_STEPS = 3  # the optimizer has its state from the first step on
_NONE = "no memory snapshot"


def arm() -> None:
    """Queue the work for when CUDA is initialised; do nothing without a `diagnose run`."""
    config = from_environment()
    if config is not None and config.token is not None:
        recorder = SnapshotRecorder(config)
        if config.memory:
            after_optimizer_steps(recorder.after_step, _NONE)
            at_exit(recorder.at_exit, _NONE)
        when_cuda_begins(recorder.begin, "no memory snapshots")


class SnapshotRecorder:
    """The snapshots of this process: one of each kind at most."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._owner = os.getpid()
        self._steps = 0
        self._is_over = self._wrote_oom = False

    def begin(self) -> None:
        """Begin the history, since CUDA is being initialised."""
        guarded(self._begin, "no memory snapshots")

    def after_step(self, *_: Any) -> None:
        """Count an optimizer step, and write the snapshot when there are enough."""
        if self._is_over or self._owner != os.getpid():
            return
        self._steps += 1
        if self._steps >= AFTER_STEPS and sys.modules["torch"].cuda.is_initialized() and not capturing():
            self._is_over = True
            guarded(lambda: self._write(MEMORY), _NONE)

    def at_oom(self, *_: Any) -> None:
        """Write the snapshot of an OOM that the allocator is about to raise; its lock is free again."""
        current = session()
        over = current is None or current.phase == "done"
        if not self._wrote_oom and (self._config.memory or not over):
            self._wrote_oom = True
            guarded(lambda: self._write(MEMORY_AT_OOM), _NONE)

    def at_exit(self) -> None:
        """Report why a process that trained has left no snapshot; one rank reports for all."""
        if (
            self._is_over
            or self._wrote_oom
            or not self._steps
            or self._owner != os.getpid()
            or rank_and_world_size()[0]
        ):
            return
        if sys.modules["torch"].cuda.is_initialized():
            say(f"{_NONE}: it is taken after {AFTER_STEPS} optimizer steps, and the job made {self._steps}")
        else:
            say("--memory has nothing to record: the job did not use CUDA")

    def _begin(self) -> None:
        torch: Any = sys.modules["torch"]
        if self._config.memory:
            torch.cuda.memory._record_memory_history(max_entries=ACTIONS, stacks="python")
        at_out_of_memory(self.at_oom, _NONE)

    def _write(self, name: str) -> None:
        rank = rank_and_world_size()[0]
        whole = os.path.join(self._config.out, name.format(rank))
        part = os.path.join(self._config.out, partial(name.format(rank)))
        memory: Any = sys.modules["torch"].cuda.memory

        def write() -> None:
            os.makedirs(self._config.out, exist_ok=True)
            try:
                memory._dump_snapshot(part)
                os.replace(part, whole)
            except BaseException:
                quietly(lambda: os.unlink(part))
                raise

        run_in_thread(write)
