"""Builder traces as replays."""

from collections.abc import Callable

import numpy as np
from analysed import ADD, GEMM, Built, timeline
from kineto import Trace

from diagnose.arrays import Coded
from diagnose.attribution.attribution import attribute
from diagnose.predict.replay import Replay, StepChange
from diagnose.timeline import Timeline

US = 1_000


def steps(action: Callable[[Trace], object], count: int = 5, **job: object) -> Trace:
    """A job whose steps all do the same."""
    trace = Trace(**job)  # type: ignore[arg-type]
    for _ in range(count):
        with trace.step():
            action(trace)
    return trace


def replay(built: Built) -> Replay:
    return replay_of(timeline(built))


def replay_of(line: Timeline) -> Replay:
    return Replay.of(line, attribute(line))


def gemms(job: Trace, count: int, gpu_us: float, host_us: float) -> None:
    """Operators that launch one GEMM each; a launch call takes 3 us."""
    for _ in range(count):
        job.op("aten::mm", kernel=GEMM, gpu_us=gpu_us, host_us=host_us)


def of_kind(line: Timeline, *families: str) -> np.ndarray:
    return line.gpu.of_family(*families)


def halved(line: Timeline, *families: str) -> StepChange:
    return StepChange(kernels=Coded.of(np.where(of_kind(line, *families), 0.5, 1.0)))


def there_and_back(job: Trace) -> None:
    """100 us on stream 7, then 50 us on stream 8, then 10 us on stream 7."""
    gemms(job, 1, gpu_us=100, host_us=1)
    job.wait(stream=7, waiter=8)
    job.launch(ADD, 50, stream=8)
    job.wait(stream=8, waiter=7)
    job.launch(GEMM, 10)
