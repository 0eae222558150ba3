"""torch.profiler around one window of steps, written as one gzip file that has its name only when complete."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..dumps.window_memory import WindowMemory
from ..guard import silent
from ..introspection import unseen
from ..limits.allowance import Allowance
from ..limits.capture_size import TrialStep
from ..threaded import run_in_thread
from . import cupti, forks, other_profilers, ranges
from .deferral import handlers_wait
from .gc_ranges import Collections
from .trace_file import exported_bytes, write_trace

_forsaken: list[Any] = []  # kept: to free a profiler is to end it


class Recorder:
    """Profiles `warmup` + `active` steps and writes the active ones to `path`.

    With an `allowance` the first of several steps of warm-up is a trial: it is recorded, exported and thrown away, and
    its size decides how many steps are recorded, and whether with shapes. The step after it rests. A range that is open
    when a profiler stops, such as that of the optimizer's step around its hooks, writes its end into memory that is
    free by then, if another profiler is on when it ends.

    Everything but `write` belongs to the training thread. It raises whatever the profiler raises; the session decides
    what that means.

    With `stacks` each call of Python is recorded, and the history of allocations, which makes the steps far longer.

    Attributes:
        running: the profiler is on.
        rests: it is off for one step, after the trial.
        recorded: a step was recorded, or a part of one.
        written: the trace is there.
    """

    def __init__(
        self, path: Path, warmup: int, active: int, allowance: Allowance | None = None, stacks: bool = False
    ) -> None:
        self.path = path
        self._stacks = stacks
        self._memory = WindowMemory(path.parent) if stacks else None
        self._allowance = allowance
        self._on_trial = self.rests = False
        self._shapes = True
        self._give_way: Callable[[], object] = list
        self.running = self.recorded = self.written = self._forsaken = False
        self.settings: dict[str, object] = {}
        self._length = (warmup, active)
        self._steps = self._first_step = 0
        self._profiler: Any = None
        self._collections: Collections | None = None

    @property
    def active(self) -> int:
        """Steps that are recorded; 0 if nothing is."""
        return self._length[1]

    @property
    def left_out(self) -> str:
        """Why nothing is recorded, by choice; "" if something is to be."""
        return self._allowance.left_out if self._allowance is not None else ""

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
        self._first_step, self._give_way = step, give_way
        forks.profiler_started(lambda: self.running)
        if self._allowance is None:
            self._begin(self._built())
            return
        self._allowance.begins(self.active)
        if self._allowance.refuses(step - 1):
            self._length = (self._length[0], 0)
            return
        self._on_trial = self._length[0] > 1
        self._begin(self._built_for_a_trial() if self._on_trial else self._built())

    def _begin(self, profiler: Any) -> None:
        self._profiler = profiler
        with handlers_wait(), silent(), unseen():
            if other_profilers.running():
                raise RuntimeError("another profiler is running in this process")
            self.running = True
            other_profilers.begins(self._profiler, self._give_way, self.forsake)
            cupti.stay_attached()
            _start(self._profiler)
            if not self._on_trial:
                self.settings["detaches_cupti"] = cupti.detach_at_stop()
            ranges.record(True)
            self._watch_collections()

    def step(self) -> None:
        """Count a step of the window."""
        if self.rests:
            self.rests = False
            self._begin(self._built())
            return
        if not self.running:
            return
        if self._on_trial:
            self._decide()
            return
        with handlers_wait(), silent(), unseen():
            self._steps += 1
            self._profiler.step()
            if self._memory is not None and self._steps == self._length[0]:
                self._memory.begin()
            self._watch_collections()

    def _decide(self) -> None:
        """End the trial and record what its size allows, from the step after the next on."""
        assert self._allowance is not None
        began = time.perf_counter()
        self.stop()
        stopped = time.perf_counter()
        text_bytes = run_in_thread(lambda: exported_bytes(self._profiler, self.path))
        trial = TrialStep(text_bytes, stopped - began, time.perf_counter() - stopped)
        self._profiler, self._on_trial = None, False
        choice = self._allowance.decide(trial, self.path.parent)
        self._shapes = choice.shapes
        self._length = (self._length[0] - 2, choice.steps)
        self._first_step += 2
        self.rests = choice.steps > 0

    def stop(self) -> None:
        """Stop the profiler; its records wait for `write`."""
        self.rests = False
        with handlers_wait(), silent(), unseen():
            if self.running:
                self._unhook()
                self._profiler.stop()
                self._stopped()

    def write(self) -> None:
        """Write the recorded steps, if there are any; any thread may."""
        if self._memory is not None:
            self._memory.write()
        profiler, self._profiler = self._profiler, None
        if self.recorded and profiler is not None:
            warmup, active = self._length
            write_trace(profiler, self.path, self._collections, (self._first_step + warmup, active))
            self.written = True
        cupti.stay_attached()

    def still_ours(self) -> None:
        """Raise if another thread's profiler has taken the session."""
        if self._forsaken:
            forks.record_nothing()
            raise RuntimeError("the job started a profiler of its own in another thread")

    def forsake(self) -> None:
        """Abandon our profiler, since another thread's has torch's session: it is not stopped, freed or written."""
        if self.running:
            _forsaken.append(self._profiler)
            self._profiler, self.recorded, self._forsaken = None, False, True
            cupti.stay_attached()
            self._unhook()
            self._stopped()

    def abort(self) -> None:
        """Leave no profiler running behind a failure, and nothing to write."""
        self.rests = False
        with handlers_wait(), silent(), unseen():
            profiler, self._profiler = self._profiler, None
            self.recorded = False
            if self.running:
                self._unhook()
                profiler.on_trace_ready = None
                beside = other_profilers.running()
                self._stopped()
                if not beside:  # torch would end that one
                    _stop(profiler)
            cupti.stay_attached()

    def _unhook(self) -> None:
        ranges.record(False)
        if self._memory is not None:
            self._memory.end()
        if self._collections is not None:
            self._collections.stop()

    def _stopped(self) -> None:
        self.running = False
        other_profilers.ended()

    def _watch_collections(self) -> None:
        """Watch garbage collections from the first recorded step on: those of the warm-up are in no trace."""
        if self._collections is None and self._steps >= self._length[0] and not self._on_trial:
            self._collections = Collections()

    def _built(self) -> Any:
        from torch.profiler import profile

        warmup, active = self._length
        activities = _activities()
        options, extra = _experimental(self._stacks)
        self.settings = {
            "activities": sorted(activity.name for activity in activities),
            "warmup": warmup,
            "active": active,
            "record_shapes": self._shapes,
            "with_stack": self._stacks,
            "profile_memory": False,
            "record_python_gc_info": True,
            **extra,
        }
        with silent():
            built = profile(
                activities=activities,
                schedule=_schedule(self._first_step, warmup, active),
                on_trace_ready=self._ready,
                record_shapes=self._shapes,
                with_stack=self._stacks,
                experimental_config=options,
            )
        built.step_num = self._first_step  # ProfilerStep#N counts as the job does
        return built

    def _built_for_a_trial(self) -> Any:
        from torch.profiler import profile

        with silent():
            return profile(
                activities=_activities(), with_stack=self._stacks, experimental_config=_experimental(self._stacks)[0]
            )

    def _ready(self, _profiler: Any) -> None:
        self.recorded = True


def _schedule(first: int, warmup: int, active: int) -> Callable[[int], Any]:
    """The profiler's action in each step of the job: torch's own schedule warns of a window without warm-up."""
    from torch.profiler import ProfilerAction

    def action(step: int) -> ProfilerAction:
        at = max(step - first, 0)
        if at < warmup:
            return ProfilerAction.WARMUP
        if at < warmup + active - 1:
            return ProfilerAction.RECORD
        return ProfilerAction.RECORD_AND_SAVE if at == warmup + active - 1 else ProfilerAction.NONE

    return action


def _start(profiler: Any) -> None:
    """Start it without the warning of torch 2.10 and 2.11, which they give for each profiler that does not keep events.

    Events are only kept when a second cycle begins, and there is one: just the check for the warning sees the setting.
    """
    keeps = getattr(profiler, "acc_events", None)
    if keeps is not None:
        profiler.acc_events = True
    try:
        profiler.start()
    finally:
        if keeps is not None:
            profiler.acc_events = keeps
            inner = getattr(profiler, "profiler", None)
            if inner is not None:
                inner.acc_events = keeps


def _stop(profiler: Any) -> None:
    """Stop the profiler, past its schedule if that fails: a process in which one stays on crashes as it exits."""
    try:
        profiler.stop()
    except Exception:
        profiler.stop_trace()
        raise


def _activities() -> Any:
    """The activities to record: those of the host, and those of a GPU if torch was built for one."""
    from torch.profiler import ProfilerActivity, supported_activities

    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} & set(supported_activities())


def _experimental(stacks: bool) -> tuple[Any, dict[str, object]]:
    """The profiler's experimental options that this torch has, and their values; `trace_only` excludes stacks."""
    try:
        from torch._C._profiler import _ExperimentalConfig
    except ImportError:
        return None, {}
    wanted: dict[str, Any] = {
        "enable_cuda_sync_events": True,
        "trace_only": not stacks,
    }
    known = {name: value for name, value in wanted.items() if name in (_ExperimentalConfig.__init__.__doc__ or "")}
    try:
        return _ExperimentalConfig(**known), known
    except TypeError:
        return _ExperimentalConfig(), {}
