"""torch.profiler around one window of steps, written as one gzip file that has its name only when complete."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import forks, other_profilers, ranges
from .deferral import handlers_wait
from .gc_ranges import Collections
from .guard import silent
from .held import unseen
from .trace_file import write_trace

_forsaken: list[Any] = []  # kept: to free a profiler is to end it


class Recorder:
    """Profiles `warmup` + `active` steps and writes the active ones to `path`.

    Everything but `write` belongs to the training thread. Raises whatever the profiler raises: the session decides what
    that means.

    Attributes:
        running: the profiler is on.
        recorded: a step was recorded, or a part of one.
        written: the trace is there.
    """

    def __init__(self, path: Path, warmup: int, active: int) -> None:
        self.path = path
        self.running = self.recorded = self.written = self._forsaken = False
        self.settings: dict[str, object] = {}
        self._length = (warmup, active)
        self._steps = self._first_step = 0
        self._profiler: Any = None
        self._collections: Collections | None = None

    @property
    def holds_a_step(self) -> bool:
        """Whether a whole step is recorded."""
        return self._steps > self._length[0]

    def start(self, give_way: Callable[[], object], step: int) -> None:
        """Begin the warm-up with the job's step `step`.

        `give_way` is called when the job itself starts a profiler meanwhile.
        """
        other_profilers.watch()
        if other_profilers.nsight_records(os.environ):
            raise RuntimeError("Nsight Systems records this process, and CUDA serves one profiler: run it without nsys")
        self._first_step = step
        self._profiler = self._built()
        forks.profiler_started(lambda: self.running)
        with handlers_wait(), silent(), unseen():
            if other_profilers.running():
                raise RuntimeError("another profiler is running in this process")
            self.running = True
            other_profilers.begins(self._profiler, give_way, self.forsake)
            self._profiler.start()
            ranges.record(True)
            self._watch_collections()

    def step(self) -> None:
        """A profiled step has ended."""
        with handlers_wait(), silent(), unseen():
            self._steps += 1
            self._profiler.step()
            self._watch_collections()

    def stop(self) -> None:
        """Stop the profiler; what was recorded waits for `write`."""
        with handlers_wait(), silent(), unseen():
            if self.running:
                self._unhook()
                self._profiler.stop()
                self._stopped()

    def write(self) -> None:
        """Write what was recorded, if anything was; any thread may."""
        profiler, self._profiler = self._profiler, None
        if self.recorded and profiler is not None:
            warmup, active = self._length
            write_trace(profiler, self.path, self._collections, (self._first_step + warmup, active))
            self.written = True

    def still_ours(self) -> None:
        """Raise when another thread's profiler has taken the session."""
        if self._forsaken:
            forks.record_nothing()
            raise RuntimeError("the job started a profiler of its own in another thread")

    def forsake(self) -> None:
        """Another thread's profiler has taken torch's session: ours is neither stopped nor freed nor written."""
        if self.running:
            _forsaken.append(self._profiler)
            self._profiler, self.recorded, self._forsaken = None, False, True
            self._unhook()
            self._stopped()

    def abort(self) -> None:
        """Leave no profiler running behind a failure, and nothing to write."""
        with handlers_wait(), silent(), unseen():
            profiler, self._profiler = self._profiler, None
            self.recorded = False
            if self.running:
                self._unhook()
                profiler.on_trace_ready = None
                beside = other_profilers.running()
                self._stopped()
                if not beside:  # torch would end that one
                    profiler.stop()

    def _unhook(self) -> None:
        ranges.record(False)
        if self._collections is not None:
            self._collections.stop()

    def _stopped(self) -> None:
        self.running = False
        other_profilers.ended()

    def _watch_collections(self) -> None:
        """From the first recorded step on: what happens in the warm-up is in no trace."""
        if self._collections is None and self._steps >= self._length[0]:
            self._collections = Collections()

    def _built(self) -> Any:
        from torch.profiler import ProfilerActivity, profile, schedule, supported_activities

        warmup, active = self._length
        first, window = self._first_step, schedule(wait=0, warmup=warmup, active=active, repeat=1)
        activities = {ProfilerActivity.CPU, ProfilerActivity.CUDA} & set(supported_activities())
        options, extra = _experimental()
        self.settings = {
            "activities": sorted(activity.name for activity in activities),
            "warmup": warmup,
            "active": active,
            "record_shapes": True,
            "with_stack": False,
            "profile_memory": False,
            "record_python_gc_info": True,
            **extra,
        }
        with silent():
            built = profile(
                activities=activities,
                schedule=lambda step: window(max(step - first, 0)),
                on_trace_ready=self._ready,
                record_shapes=True,
                experimental_config=options,
            )
        built.step_num = first  # ProfilerStep#N counts as the job does
        return built

    def _ready(self, _profiler: Any) -> None:
        self.recorded = True


def _experimental() -> tuple[Any, dict[str, object]]:
    """The profiler's options beyond the stable ones, as many as this torch knows, and which they are."""
    try:
        from torch._C._profiler import _ExperimentalConfig
    except ImportError:
        return None, {}
    wanted: dict[str, Any] = {
        "enable_cuda_sync_events": True,
        "trace_only": True,
    }
    known = {name: value for name, value in wanted.items() if name in (_ExperimentalConfig.__init__.__doc__ or "")}
    try:
        return _ExperimentalConfig(**known), known
    except TypeError:
        return _ExperimentalConfig(), {}
