"""The history of allocations on CUDA over one window, for `diagnose memory`: recorded only there, and only if asked."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from ..config import rank_and_world_size
from ..cuda_graphs import capturing
from ..guard import guarded, quietly
from ..protocol import MEMORY, partial

ACTIONS = 100_000  # that are kept: tens of steps of most jobs, and hundreds of megabytes at most
_NONE = "no memory snapshot of the second window"


class WindowMemory:
    """Records from `begin` to `end`, unless the job does not use CUDA, captures a graph, or records a history itself.

    `end` takes the snapshot, which the training thread waits for; `write` puts it into a file beside the trace.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_on = False
        self._snapshot: Any = None

    def begin(self) -> None:
        """Record from now on."""
        memory = _memory()
        if memory is not None and not self._is_on:
            self._is_on = guarded(lambda: memory._record_memory_history(max_entries=ACTIONS, stacks="python"), _NONE)

    def end(self) -> None:
        """Record no more."""
        if self._is_on:
            self._is_on = False
            memory: Any = sys.modules["torch"].cuda.memory
            self._snapshot = quietly(memory._snapshot)
            quietly(lambda: memory._record_memory_history(enabled=None))

    def write(self) -> None:
        """Write the snapshot, if there is one."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            guarded(lambda: self._write(snapshot), _NONE)

    def _write(self, snapshot: Any) -> None:
        import pickle

        name = MEMORY.format(rank_and_world_size()[0])
        part = self._folder / partial(name)
        try:
            part.write_bytes(pickle.dumps(snapshot))
            os.replace(part, self._folder / name)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _memory() -> Any:
    """The module of CUDA's memory if a history can begin; None if the job does not use CUDA, or records one itself."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized() or capturing():
        return None
    records = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return torch.cuda.memory if records is not None and quietly(records) is False else None
