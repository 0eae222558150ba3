"""Passes over the loader: how many batches each has, and what starting workers for it costs."""

import math
import statistics

from diagnose.facts import STEP, Unknown, Value, another_run, nothing_helps
from diagnose.metrics.data.loader import loader_workers
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.setup import batches_of_a_step
from diagnose.metrics.run.usual import usual_step_ns
from diagnose.trace.record import unprofiled_ns

PASS = "a pass over the loader"
RESTART_NS = 1_000_000  # of kept workers, in each pass: measured, 0.9 to 1.3 ms for a pass of one tiny batch
HAND_OVER_NS = 500_000  # of a batch: measured, 0.5 to 0.6 ms for a tiny one
COST_CROWDED, COST_UP_TO = 2.0, 2.5
"""Times this estimate where workers and training share all cores, at least and at most: measured, 2 to 3 times on 2
cores.
"""
HAND_OVER_BYTES_PER_S = 2e9  # of a large one: measured, 1.3 to 1.4 GB/s with the first part in it
FEW = 2  # batches of each worker in a pass, with which hardly any is loaded ahead
LEAST_LEFT, LEAST_PASSES = 8, 5  # times as many batches, or passes, as are taken or ended: no chance
MOST_STEPS_NAMED = 6
SEE_MORE = another_run("capture a window that begins after two passes over the loader (diagnose run --at-step K)")
UNSEEN = Unknown("the length of a pass over the loader is not known: none had ended before the window did", SEE_MORE)
NOT_TIMED = Unknown("no pass over the loader began while it was watched", SEE_MORE)
NO_WORKERS = Unknown("the loader has no workers", nothing_helps("nothing is started"))
NO_SIZE = Unknown(
    "what handing over a batch takes is not known: its bytes were not seen",
    another_run("measure it with diagnose data"),
)


@metric("count", needs_gpu=False)
def batches_per_pass(m: Measured) -> Value:
    """Batches of a pass over the loader that the loop waited for longest."""
    batches = m.record.number("loading.passes.batches")
    return batches if batches is not None else UNSEEN if m.record.get("loading.passes") else _untimed(m)


@metric("count", needs_gpu=False)
def loader_passes(m: Measured) -> Value:
    """Passes over that loader that began before the window ended."""
    return _untimed(m) if (seen := m.record.number("loading.passes.seen")) is None else seen


@metric("ns", needs_gpu=False)
def worker_start_ns(m: Measured) -> Value:
    """Time that a pass over the loader waits for the start of its workers, by the first batches of passes that started
    them. What a worker may take to make a batch is left out: its CPU time over the share of a core that it computes
    while it is waited for, and at most as many steps as there are workers, for each gives one in that time.
    """
    workers = m.record.number("loading.workers")
    if not workers:
        return NO_WORKERS
    firsts, anew = _firsts(m), m.record.number("loading.passes.anew")
    if not firsts or not anew:
        return _untimed(m)
    started = firsts[:1] if m.record.flag("loading.passes.persistent") else firsts
    return max(statistics.median(started) - min(workers * _usual_batch_ns(m), _made_in_ns(m)), 0.0)


@metric("share", PASS, needs_gpu=False)
def worker_start_share(m: Measured) -> Value:
    """Share of a pass over the loader, of its batches and their steps, that goes into starting workers; 0 if they stay
    from one pass to the next.
    """
    start, batches = worker_start_ns(m), batches_per_pass(m)
    if loader_workers(m) == "none":
        return 0.0
    if m.record.flag("loading.passes.persistent"):
        return 0.0
    if isinstance(start, Unknown) or isinstance(batches, Unknown):
        return start if isinstance(start, Unknown) else batches
    return float(start) / max(float(start) + float(batches) * _usual_batch_ns(m), 1.0)


@metric("share", STEP, needs_gpu=False)
def steady_data_wait_share(m: Measured) -> Value:
    """Waiting for batches that come when the workers of a pass have started, over a step without the profiler."""
    waits = [float(ns) for ns in m.record.get("loading.wait_ns") or () if ns is not None]
    steps = unprofiled_ns(m.record)
    if not waits or not steps:
        return _untimed(m)
    return min(statistics.median(waits) * batches_of_a_step(m) / max(statistics.median(steps), 1.0), 1.0)


@metric("text", needs_gpu=False)
def pass_start_steps(m: Measured) -> Value:
    """Steps that begin a pass over the loader, those behind the first one: as they were seen, and as they go on."""
    steps = _steps_of_a_pass(m)
    seen = [int(step) for step in m.record.get("loading.passes.steps") or () if step]
    if isinstance(steps, Unknown) or not seen:
        return steps if isinstance(steps, Unknown) else _untimed(m)
    named = [round(seen[0] + number * steps) for number in range(1, MOST_STEPS_NAMED)]
    later = [step for step in dict.fromkeys(named) if step > seen[0]]
    return f"{', '.join(map(str, later[:3]))}, ..." if later else f"{seen[0]}, ..."


@metric("flag", needs_gpu=False)
def pass_begins_in_window(m: Measured) -> Value:
    """Whether a pass over the loader begins in a counted step."""
    if m.record.number("loading.passes.seen") is None:
        return _untimed(m)
    begun = {int(step) for step in m.record.get("loading.passes.steps") or () if step is not None}
    return not begun.isdisjoint(m.timeline.steps.numbers)


@metric("flag", needs_gpu=False)
def loader_made_anew(m: Measured) -> Value:
    """Whether the job makes a DataLoader for each pass, so that no worker can stay for the next one."""
    loaders, seen = m.record.number("loading.passes.loaders"), m.record.number("loading.passes.seen")
    return _untimed(m) if loaders is None or seen is None else loaders > 1 and loaders == seen


@metric("share", STEP, needs_gpu=False)
def left_pass_share(m: Measured) -> Value:
    """Beginning of passes over the loader, of the steps without the profiler, if the loop leaves each after a batch or
    two of many; 0 if it goes through them.
    """
    taken, seen = batches_per_pass(m), m.record.number("loading.passes.seen")
    ended = m.record.number("loading.passes.gone_through")
    if isinstance(taken, Unknown) or seen is None or ended is None:
        return taken if isinstance(taken, Unknown) else _untimed(m)
    length = m.record.number("loading.passes.length")
    few = float(taken) <= FEW and (length is None or length >= LEAST_LEFT * float(taken))
    if not few or seen < LEAST_PASSES or ended * LEAST_LEFT > seen:
        return 0.0
    begun = _firsts(m)[1:]
    return min(statistics.median(begun) / (float(taken) * _usual_batch_ns(m)), 1.0) if begun else _untimed(m)


@metric("ns", needs_gpu=False)
def pass_loading_ns(m: Measured) -> Value:
    """Time for which a pass over the loader is waited for, without the start of workers; without workers its loading,
    but for the time in which that had no core, where workers would have none either.
    """
    batches, fetched = batches_per_pass(m), m.record.number("loading.passes.fetched")
    waited = m.record.number("loading.passes.waited_ns")
    if isinstance(batches, Unknown) or not fetched or waited is None:
        return batches if isinstance(batches, Unknown) else _untimed(m)
    wall, ready, timed = (m.record.number(f"loading.{name}") for name in ("wall_ns", "ready_ns", "fetches"))
    if not m.record.number("loading.workers") and wall and ready and timed:
        return float(batches) * max(wall - ready, 0.0) / timed
    return float(batches) * usual_wait_ns(m)


@metric("ns", needs_gpu=False)
def hidden_loading_ns(m: Measured) -> Value:
    """Loading of a pass that workers may do beside steps at most: its first batch is waited for in any case."""
    loading, batches = pass_loading_ns(m), batches_per_pass(m)
    if isinstance(loading, Unknown) or isinstance(batches, Unknown):
        return loading if isinstance(loading, Unknown) else batches
    return hidden_ns(float(loading), float(batches))


def hidden_ns(loading_ns: float, batches: float) -> float:
    """Loading of a pass that can be hidden beside steps: that of all its batches but the first."""
    return loading_ns * max(batches - 1, 0.0) / max(batches, 1.0)


def kept_workers_ns(batches: float, hand_over_ns: float) -> float:
    """The cost, in a pass, of workers that stay from one to the next."""
    return RESTART_NS + batches * hand_over_ns


def loads_hardly_ahead(batches: float, workers: float) -> bool:
    """Whether a pass is so short that workers make few of its batches beside steps."""
    return batches <= FEW * max(workers, 1.0)


@metric("ns", needs_gpu=False)
def worker_pass_cost_ns(m: Measured) -> Value:
    """Time that workers which stay for all passes cost in each, by an estimate: they are set going again, and each
    batch is handed over, which takes time by its bytes.
    """
    batches, each = batches_per_pass(m), hand_over_ns(m)
    if isinstance(batches, Unknown) or each is None:
        return batches if isinstance(batches, Unknown) else NO_SIZE
    return kept_workers_ns(float(batches), each)


def hand_over_ns(m: Measured) -> float | None:
    """The cost of handing over a batch by an estimate, which takes time by its bytes; None if they were not seen."""
    size = m.record.number("batch.bytes")
    return None if size is None else HAND_OVER_NS + 1e9 * size / HAND_OVER_BYTES_PER_S


@metric("flag", needs_gpu=False)
def workers_cost_more(m: Measured) -> Value:
    """Whether workers may cost a pass over the loader more than they hide. Without workers by an estimate; with them,
    where each makes a few batches of a pass, by the waits of a pass and the CPU time that its batches take.
    """
    if m.record.number("loading.workers") is None:
        return m.unrecorded
    if not m.record.number("loading.workers"):
        cost, hidden = worker_pass_cost_ns(m), hidden_loading_ns(m)
        if isinstance(cost, Unknown) or isinstance(hidden, Unknown):
            return cost if isinstance(cost, Unknown) else hidden
        return COST_UP_TO * float(cost) >= float(hidden)
    batches, made = batches_per_pass(m), worker_batch_cpu_ns(m)
    if isinstance(batches, Unknown) or isinstance(made, Unknown):
        return batches if isinstance(batches, Unknown) else made
    workers = m.record.number("loading.workers") or 1.0
    return loads_hardly_ahead(float(batches), workers) and usual_wait_ns(m) > float(made)


@metric("ns", needs_gpu=False)
def worker_batch_cpu_ns(m: Measured) -> Value:
    """CPU time that a loader worker takes for a batch, by that of all workers over the batches that came meanwhile."""
    made = m.record.number("loading.passes.batch_cpu_ns")
    return Unknown("no batches were timed behind the start of the workers", SEE_MORE) if made is None else made


def _made_in_ns(m: Measured) -> float:
    """Time in which a worker makes a batch, by its CPU time and what it computes while waited for; else infinite."""
    made, wall = m.record.number("loading.passes.batch_cpu_ns"), m.record.number("loading.wall_ns")
    computes = m.record.number("loading.cpu_ns")
    return made * wall / computes if made is not None and wall and computes else math.inf


def _usual_batch_ns(m: Measured) -> float:
    """Time in which the loop takes a batch: that of a step without the profiler, over its batches."""
    return usual_step_ns(m) / max(batches_of_a_step(m), 1.0)


def _untimed(m: Measured) -> Unknown:
    return NOT_TIMED if m.record else m.unrecorded


def _steps_of_a_pass(m: Measured) -> float | Unknown:
    batches = batches_per_pass(m)
    return batches if isinstance(batches, Unknown) else float(batches) / max(batches_of_a_step(m), 1.0)


def _firsts(m: Measured) -> list[float]:
    return [float(ns) for ns in m.record.get("loading.passes.first_wait_ns") or () if ns is not None]


def usual_wait_ns(m: Measured) -> float:
    """The mean wait for a batch in passes that start no worker; where each pass does, the median of later batches."""
    firsts = _firsts(m)
    steady = [float(ns) for ns in m.record.get("loading.wait_ns") or () if ns is not None]
    if firsts and m.record.number("loading.workers") and not m.record.flag("loading.passes.persistent"):
        return statistics.median(steady) if steady else 0.0
    waited, fetched = m.record.number("loading.passes.waited_ns"), m.record.number("loading.passes.fetched")
    if not waited or not fetched or not firsts:
        return statistics.median(steady) if steady else 0.0
    return (waited - firsts[0]) / max(fetched - 1, 1)
