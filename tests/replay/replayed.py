"""Builder traces as replays."""

from collections.abc import Callable

from analysed import GEMM, Built, timeline
from kineto import Trace

from diagnose.attribution.attribution import attribute
from diagnose.predict.replay import Replay
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
