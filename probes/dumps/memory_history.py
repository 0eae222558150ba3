"""Snapshots of the caching allocator for `diagnose memory`: at the first OOM before the window ends, or when asked.

Everything begins when the job itself initialises CUDA, by torch's queue of calls for that moment: asking the device
earlier would initialise it in a process that may still fork. The history of allocations costs some microseconds each,
so it is recorded with `--memory` alone, and bounded.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ..aside import aside
from ..config import Config, from_environment, rank_and_world
from ..current_session import session
from ..guard import guarded, quietly
from ..protocol import MEMORY, MEMORY_AT_OOM, partial

ACTIONS = 100_000  # that are kept: tens of steps of most jobs, and hundreds of megabytes at most
AFTER_STEPS = 3  # the optimizer has its state since the first


def arm() -> None:
    """Queue what is to be done when CUDA is initialised; nothing without a `diagnose run`."""
    config = from_environment()
    if config is not None and config.token is not None:
        recorder = Recorder(config)
        sys.modules["torch"].cuda._lazy_call(recorder.begin)
        if config.memory:
            recorder.count_steps()


class Recorder:
    """The snapshots of this process: one of each kind at most."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._steps = 0
        self._wrote_oom = False

    def begin(self) -> None:
        """CUDA is being initialised."""
        guarded(self._begin, "no memory snapshots")

    def after_step(self, *_: Any) -> None:
        """An optimizer has stepped."""
        self._steps += 1
        if self._steps == AFTER_STEPS and sys.modules["torch"].cuda.is_initialized():
            guarded(lambda: self._write(MEMORY), "no memory snapshot")

    def at_oom(self, *_: Any) -> None:
        """The allocator is about to raise an OOM; its lock is free again."""
        current = session()
        over = current is None or current.phase == "done"
        if not self._wrote_oom and (self._config.memory or not over):
            self._wrote_oom = True
            guarded(lambda: self._write(MEMORY_AT_OOM), "no memory snapshot")

    def count_steps(self) -> None:
        """Look at every step of an optimizer from now on."""
        torch: Any = sys.modules["torch"]
        from torch.optim.optimizer import register_optimizer_step_post_hook

        untraced = getattr(torch, "_disable_dynamo", lambda function: function)
        register_optimizer_step_post_hook(untraced(self.after_step))

    def _begin(self) -> None:
        torch: Any = sys.modules["torch"]
        if self._config.memory:
            torch.cuda.memory._record_memory_history(max_entries=ACTIONS, stacks="python")
        torch._C._cuda_attach_out_of_memory_observer(self.at_oom)

    def _write(self, name: str) -> None:
        rank = rank_and_world()[0]
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

        aside(write)
