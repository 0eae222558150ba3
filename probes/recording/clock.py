"""Step times: by the host's clock, and by CUDA events if a device runs behind the host."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from ..cuda_graphs import capturing
from ..guard import quietly
from ..protocol import DATA_WAIT_RANGE, FIRST_BATCH_RANGE
from .core_time import CoreTime
from .gc_ranges import Collections
from .range_times import times as range_times
from .system_work import system_work

KEPT = ("control", "warmup", "active", "control_after")
UNPROFILED = ("control", "control_after")
LIGHT = ("waiting", *UNPROFILED, "sampling")  # steps that are as long as without us
RANGED = (*LIGHT, "warmup", "active")
RECORDED = "active"
MOST_WAITED = 20_000  # a wait may last a million steps: the last of them, as bare numbers
Mark = tuple[int, Any]


class StepClock:
    """Collects the time of each step by phase; time between `step_ended` and `step_begins` is not counted.

    Attributes:
        now: returns nanoseconds.
        began: when the running step began; None if that was not seen.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self._collections: Collections | None = None
        self.restart()

    def restart(self) -> None:
        """Forget the steps and begin the next one now."""
        self._spans: dict[str, list[tuple[Mark, Mark]]] = {}
        self._ranges: dict[str, list[tuple[int, dict[str, int], int]]] = {}
        self._every: deque[tuple[int, int, bool, dict[str, int], int]] = deque(maxlen=MOST_WAITED)
        self._waited: deque[int | None] = deque(maxlen=MOST_WAITED)
        self._cores = CoreTime()
        self._core_times: list[tuple[int, int] | None] = []
        self._system_work: list[tuple[int, int] | None] = []
        self._collected_before = _collections()
        self.step_begins()

    def step_begins(self, phase: str = "") -> None:
        """Begin a step of `phase`; without the profiler its ranges and collections are timed, too."""
        self._on_core = self._core_time(phase)
        self._in_system = system_work() if phase in UNPROFILED else None
        self.began: Mark | None = self._mark()
        self._watch(phase in RANGED)

    def rest(self) -> None:
        """Stop watching, since no timed step follows: nothing stays behind in the process."""
        self._watch(False)

    def _watch(self, on: bool) -> None:
        range_times.restart(on=on)
        if not on and self._collections is not None:
            self._collections.stop()
            self._collections = None
        elif on and self._collections is None:
            self._collections = Collections()
        elif self._collections is not None:
            self._collections.taken_ns()  # of steps that got no time

    def step_is_underway(self) -> None:
        """Mark that the running step began unseen, before any clock: it gets no time."""
        self.began = None

    def step_ended(self, phase: str, number: int = 0) -> int:
        """End step `number`, of `phase`; return its host time in nanoseconds, 0 if its beginning was not seen."""
        began, ended = self.began, self._mark()
        if began is None:
            self.step_passed(phase)
            return 0
        if phase == "waiting":
            self._waited.append(ended[0] - began[0])
        elif phase in KEPT:
            self._spans.setdefault(phase, []).append((began, ended))
            if phase == RECORDED:
                self._core_times.append(_since(self._on_core, self._core_time(phase)))
            elif phase in UNPROFILED:
                self._system_work.append(_since(self._in_system, system_work()))
        if phase in RANGED and range_times.on:
            self._with_ranges(phase, number, ended[0] - began[0])
        return ended[0] - began[0]

    def _with_ranges(self, phase: str, number: int, ns: int) -> None:
        spent_ns = self._collections.taken_ns() if self._collections is not None else 0
        ranges = range_times.taken()
        self._every.append((number, ns, phase not in LIGHT, ranges, spent_ns))
        if phase in UNPROFILED:
            self._ranges.setdefault(phase, []).append((ns, ranges, spent_ns))

    def step_passed(self, phase: str) -> None:
        """End a step of `phase` that gets no time."""
        if phase in ("waiting", "control"):
            self.put_off()
            self._waited.append(None)

    def put_off(self) -> None:
        """Count the steps timed since the waiting as part of it; steps with the profiler on have no time there."""
        self._ranges.clear()
        self._core_times.clear()
        self._system_work.clear()
        for phase in KEPT:
            for began, ended in self._spans.pop(phase, []):
                self._waited.append(ended[0] - began[0] if phase == "control" else None)

    def times(self, phase: str) -> list[int]:
        """The nanoseconds of each step of `phase`: of the device if every step has them, else of the host."""
        of_device = self._of_device()
        if of_device is not None:
            return of_device.get(phase, [])
        return [ended[0] - began[0] for began, ended in self._spans.get(phase, [])]

    def host_times(self) -> list[int]:
        """The host's nanoseconds of each step whose ranges were timed: those without the profiler."""
        return [ns for phase in UNPROFILED for ns, _, _ in self._ranges.get(phase, [])]

    def collection_times(self) -> list[int]:
        """Nanoseconds of these steps in which Python collected garbage, in any thread: all wait for it."""
        return [spent_ns for phase in UNPROFILED for _, _, spent_ns in self._ranges.get(phase, [])]

    def collections(self) -> list[int]:
        """Collections of garbage since the first step, of each generation."""
        return [now - before for now, before in zip(_collections(), self._collected_before)]  # noqa: B905 - of Python 3.10

    def range_times(self) -> dict[str, list[int]]:
        """Nanoseconds of these steps in each range of the training thread, without the ranges within it."""
        steps = [ranges for phase in UNPROFILED for _, ranges, _ in self._ranges.get(phase, [])]
        names = dict.fromkeys(name for ranges in steps for name in ranges if name != FIRST_BATCH_RANGE)
        times = {name: [ranges.get(name, 0) for ranges in steps] for name in names}
        first = [ranges.get(FIRST_BATCH_RANGE, 0) for ranges in steps]
        if any(first):
            others = times.get(DATA_WAIT_RANGE, [0] * len(first))
            times[DATA_WAIT_RANGE] = [sum(each) for each in zip(first, others)]  # noqa: B905 - of Python 3.10
        return times

    def every_step(self) -> dict[str, object]:
        """All steps that were timed, the last `MOST_WAITED`, as the record has them."""
        number, ns, profiled, ranges, gc_ns = map(list, zip(*self._every)) if self._every else ([] for _ in range(5))  # noqa: B905
        names = dict.fromkeys(name for each in ranges for name in each)
        of_ranges = {name: [each.get(name, 0) for each in ranges] for name in names}
        return {"number": number, "ns": ns, "profiled": profiled, "gc_ns": gc_ns, "ranges_ns": of_ranges}

    def core_times(self) -> list[tuple[int, int] | None]:
        """For each recorded step, nanoseconds on a core and ready without one; None if the kernel keeps no count."""
        return list(self._core_times)

    def system_work(self) -> list[tuple[int, int] | None]:
        """For each timed step without the profiler, which maps pages too, nanoseconds in the kernel and pages mapped;
        None if the system keeps no count.
        """
        return list(self._system_work)

    def waited(self) -> list[int | None]:
        """The host's nanoseconds of the steps before the capture, the last `MOST_WAITED`; None if not timed."""
        return list(self._waited)

    @property
    def source(self) -> str:
        """The clock of the times: "device" if every step has device times, else "host"."""
        return "host" if self._of_device() is None else "device"

    def _of_device(self) -> dict[str, list[int]] | None:
        """The device's nanoseconds of each step by phase; None if one has none, or if CUDA refuses to return it."""
        if not any(self._spans.values()):
            return None
        times: Any = quietly(lambda: {phase: [_between(*span) for span in of] for phase, of in self._spans.items()})
        return times if isinstance(times, dict) else None

    def _core_time(self, phase: str) -> tuple[int, int] | None:
        if phase != RECORDED:
            return None
        if not self._core_times:
            quietly(self._cores.look)
        return self._cores.read()

    def _mark(self) -> Mark:
        return self.now(), quietly(_event)


def _event() -> Any:
    """A recorded CUDA event; None if CUDA is not in use, or a graph is captured, whose events carry no time.

    Recording does not wait for the device.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized() or capturing():
        return None
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _since(began: tuple[int, int] | None, ended: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if began is None or ended is None else (ended[0] - began[0], ended[1] - began[1])


def _between(began: Mark, ended: Mark) -> int:
    """Nanoseconds on the device between the two marks.

    Raises:
        AttributeError: there is no event.
        RuntimeError: CUDA refuses to time them.
    """
    ended[1].synchronize()
    return round(began[1].elapsed_time(ended[1]) * 1e6)


def _collections() -> list[int]:
    return [generation["collections"] for generation in gc.get_stats()]
