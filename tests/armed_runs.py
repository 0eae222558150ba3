"""Armed sessions in the test's own process, on a clock that the test moves."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from diagnose.probes.config import Config
from diagnose.probes.protocol import OWNER, SCRATCH
from diagnose.probes.timing.session import TimingSession
from diagnose.probes.timing.triggers import Triggers

STEP_NS = 100_000_000


class Clock:
    """Nanoseconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class NoProfiler:
    """In the place of the recorder: torch has one profiler for all ranks of a test."""

    running = written = False
    recorded = True

    def __init__(self, path: Path, *_given: object, **_more: object) -> None:
        self.path, self.settings = path, dict[str, object]()
        self.active, self.left_out = 4, ""

    def write(self) -> None:
        self.path.write_bytes(b"recorded")
        self.written = True

    def __getattr__(self, name: str) -> Any:
        return lambda *_given, **_more: None


class NoThread:
    """In the place of the thread beside the training one: the test takes its turns."""

    def __init__(self, turn: Callable[[], object], close: Callable[[], object]) -> None:
        self._turn, self._close = turn, close

    def start(self) -> None:
        """Nothing runs beside."""

    def stop(self, within_s: float) -> bool:
        self._turn()
        self._close()
        return within_s > 0


class Run:
    """One rank of an armed run in `folder`; windows of four steps after a warm-up of one."""

    def __init__(
        self,
        folder: Path,
        rank: int = 0,
        world: int = 1,
        looked_at_by: Any = None,
        sample_steps: int = 0,
        **asked: Any,
    ) -> None:
        scratch = folder / SCRATCH
        scratch.mkdir(parents=True, exist_ok=True)
        (scratch / OWNER).write_text(json.dumps({"token": "t"}))
        self.folder, self.rank, self.world = folder, rank, world
        self.clock = Clock()
        armed = Triggers(**asked).to_json()
        config = Config(
            str(folder),
            steps=4,
            warmup=1,
            control=1,
            sample_steps=sample_steps,
            token="t",
            armed=armed,
            looked_at_by=looked_at_by,
        )
        with self._as_rank():
            self.session = TimingSession(config, self.clock)

    def begin(self, done: int = 0) -> "Run":
        """The loop begins."""
        with self._as_rank():
            self.session.loop_begins("code", None, done)
        return self

    def steps(self, numbers: range, ns_of: Callable[[int], int] = lambda step: STEP_NS) -> "Run":
        """Steps of so many nanoseconds each, by number."""
        with self._as_rank():
            for step in numbers:
                self.clock.now += ns_of(step)
                self.session.step_ended()
        return self

    def look(self) -> None:
        """A turn of the thread beside the training one, now."""
        arming = self.session._arming
        assert arming is not None
        arming.turn()

    def end(self) -> None:
        with self._as_rank():
            self.session.loop_ended()

    def windows(self) -> list[str]:
        return sorted((path.name for path in self.folder.glob("step-*")), key=lambda name: int(name[5:]))

    @contextmanager
    def _as_rank(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RANK", str(self.rank))
            patch.setenv("WORLD_SIZE", str(self.world))
            yield
