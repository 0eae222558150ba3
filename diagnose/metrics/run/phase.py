"""A phase that comes every so many steps: how often, how long, and its share of the run."""

from collections import Counter

from diagnose.facts import Unknown, Value, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.cadence import RUN
from diagnose.metrics.unknowns import NO_RECORD
from diagnose.probes import protocol
from diagnose.series.phase import NONE, SlowPhase
from diagnose.trace.light_steps import GC

WAITS_FOR_ANOTHER = Unknown(
    "this rank waits for another one in the slow steps", nothing_helps("what that one does there is the job's")
)
_DOING = {
    protocol.FIRST_BATCH_RANGE: "starting a pass",
    protocol.DATA_WAIT_RANGE: "loading",
    protocol.EVAL_RANGE: "evaluating",
    protocol.SAVE_RANGE: "saving",
    protocol.LOG_RANGE: "logging",
    protocol.COMPILE_RANGE: "compiling",
    GC: "collecting garbage",
}


def phase_or_none(m: Measured) -> SlowPhase | Unknown | None:
    """The phase, None if the run's step times show none, Unknown if they are unknown."""
    found = _phase(m)
    return None if found is NONE else found


def _phase(m: Measured) -> SlowPhase | Unknown:
    return m.slow_phase if m.record or not isinstance(m.slow_phase, Unknown) else NO_RECORD


@metric("share", RUN, needs_gpu=False)
def slow_phase_run_share(m: Measured) -> Value:
    """Time that every N-th step takes beyond the others, of the run; 0 if no step is slow at a regular distance, and
    no batch comes late.
    """
    found = phase_or_none(m)
    return found if isinstance(found, Unknown) else 0.0 if found is None else found.run_share


@metric("count", needs_gpu=False)
def slow_phase_every_steps(m: Measured) -> Value:
    """Optimizer steps from one of these slow steps to the next, in the mean."""
    found = _phase(m)
    return found if isinstance(found, Unknown) else found.every


@metric("ns", needs_gpu=False)
def slow_phase_ns(m: Measured) -> Value:
    """Median time of these slow steps, without the profiler."""
    found = _phase(m)
    return found if isinstance(found, Unknown) else found.slow_ns


@metric("factor", needs_gpu=False)
def slow_phase_factor(m: Measured) -> Value:
    """The same over the median time of the other steps."""
    found = _phase(m)
    return found if isinstance(found, Unknown) else found.slow_ns / max(found.usual_ns, 1.0)


@metric("ns", needs_gpu=False)
def slow_phase_extra_ns(m: Measured) -> Value:
    """Median time that these slow steps take beyond the others."""
    found = _phase(m)
    return found if isinstance(found, Unknown) else found.more_ns


@metric("text", needs_gpu=False)
def slow_phase_doing(m: Measured) -> Value:
    """The work of these slow steps beyond the others: by their ranges, else the purpose of most of their samples, as
    the `doing` of a line; "not sampled" if there are none. Unknown of a rank that waits there for one that works.
    """
    found, samples = _phase(m), m.user_code.samples
    if isinstance(found, Unknown):
        return found
    if m.waits_in_phase:
        return WAITS_FOR_ANOTHER
    if found.grew in _DOING:
        return _DOING[found.grew]
    doing: Counter[str] = Counter()
    for stack in samples.stacks if samples is not None else ():
        doing[stack.doing] += stack.samples_in(found.steps)
    most, count = max(doing.items(), key=lambda item: item[1], default=("", 0))
    return most if count else "not sampled"
