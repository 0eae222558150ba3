"""torch.profiler around one window of steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .gc_ranges import watch_collections
from .guard import silent
from .trace_file import write_trace


class Recorder:
    """Profiles `warmup` + `active` steps and writes the active ones to `path`.

    Raises whatever the profiler raises: the session decides what that means.
    """

    def __init__(self, path: Path, warmup: int, active: int) -> None:
        self.path = path
        self.written = False
        self.settings: dict[str, object] = {}
        self._length = (warmup, active)
        self._profiler: Any = None
        self._released: Callable[[], None] = lambda: None
        self._unwatched: Callable[[], None] = lambda: None

    def start(self, give_way: Callable[[], object]) -> None:
        """Begin the warm-up; `give_way` is called when the job itself starts a profiler meanwhile."""
        from torch.autograd import _profiler_enabled

        if _profiler_enabled():
            raise RuntimeError("another profiler is running in this process")
        profiler = self._built()
        self._profiler = profiler
        with silent():
            profiler.start()
        self._released = _watch_for_others(profiler, give_way)
        self._unwatched = watch_collections()

    def step(self) -> None:
        """A profiled step has ended; the last one writes the trace."""
        with silent():
            self._profiler.step()

    def stop(self) -> None:
        """Stop the profiler; writes the steps recorded so far if they are not yet written."""
        profiler, self._profiler = self._profiler, None
        self._unwatched()
        self._released()
        if profiler is not None:
            with silent():
                profiler.stop()

    def abort(self) -> None:
        """Leave no profiler running behind a failure."""
        profiler, self._profiler = self._profiler, None
        self._unwatched()
        self._released()
        if profiler is not None:
            profiler.on_trace_ready = None
            with silent():
                profiler.stop()

    def _built(self) -> Any:
        from torch.profiler import ProfilerActivity, profile, schedule, supported_activities

        warmup, active = self._length
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
            return profile(
                activities=activities,
                schedule=schedule(wait=0, warmup=warmup, active=active, repeat=1),
                on_trace_ready=self._write,
                record_shapes=True,
                experimental_config=options,
            )

    def _write(self, profiler: Any) -> None:
        if not self.written:
            write_trace(profiler, self.path)
            self.written = True


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


def _watch_for_others(own: Any, give_way: Callable[[], object]) -> Callable[[], None]:
    """Torch refuses a second profiler with an error: ours gives way to one of the job's. Returns the watch's end."""
    from torch.autograd import profiler as autograd_profiler

    owner = autograd_profiler.profile
    original = getattr(owner, "_prepare_trace", None)
    if original is None:
        return lambda: None

    def prepare_trace(self: Any) -> Any:
        if self is not getattr(own, "profiler", None):
            release()
            give_way()
        return original(self)

    def release() -> None:
        if vars(owner).get("_prepare_trace") is prepare_trace:
            owner._prepare_trace = original

    owner._prepare_trace = prepare_trace
    return release
