"""Checkpoints and evaluations: how long one takes, and what share of the run they are at their interval."""

from diagnose import intervals as iv
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, another_run, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.capture import profiler_overhead_factor
from diagnose.trace.vocabulary import EVAL, SAVE

RUN = "the run"
WRITTEN_SLOWLY = 1.5  # times as long other checkpoints may take: an estimate, for what disks do with the same bytes
_WHERE = {SAVE: ("save", "a checkpoint was saved"), EVAL: ("eval", "an evaluation ran")}


def _in_window(m: Measured, pattern: str) -> iv.Intervals:
    host = m.timeline.steps.host
    return iv.clip(m.ranges(pattern), int(host[0, 0]), int(host[-1, 1])) if len(host) else iv.EMPTY


def _mean_ns(m: Measured, pattern: str) -> float | Unknown:
    ranges = _in_window(m, pattern)
    if not len(ranges):
        what = _WHERE[pattern][1]
        return Unknown(
            f"{what} in no counted step", another_run("capture a window in which it happens (diagnose run --at-step)")
        )
    return iv.total(ranges) / len(ranges)


def _interval(m: Measured, pattern: str) -> float | Unknown:
    name = _WHERE[pattern][0]
    if m.record.text(f"training_arguments.{name}_strategy") not in ("steps", None):
        return Unknown(f"{name}_strategy is not steps", nothing_helps("the interval is not set in steps"))
    steps = m.record.number(f"training_arguments.{name}_steps")
    if steps is None or steps < 1:
        return Unknown(f"no capture record gives {name}_steps as a number of steps", DIAGNOSE_RUN)
    return steps


def plain_step_ns(m: Measured, pattern: str = SAVE) -> float:
    """Mean host step without the ranges of the pattern."""
    host = m.timeline.steps.host
    plain = float((host[:, 1] - host[:, 0]).sum()) - iv.total(_in_window(m, pattern))
    return m.timeline.steps.each(max(plain, 0.0))


def _run_share(m: Measured, pattern: str, slowed: float = 1.0, longer: float = 1.0) -> float | Unknown:
    """One every `interval` steps: its time over that and of the steps between two, which alone the profiler slowed."""
    lasts, interval = _mean_ns(m, pattern), _interval(m, pattern)
    if isinstance(lasts, Unknown) or isinstance(interval, Unknown):
        return lasts if isinstance(lasts, Unknown) else interval
    between = interval * plain_step_ns(m, pattern) / slowed
    return longer * lasts / (longer * lasts + between)


@metric("flag", needs_gpu=False)
def saves_in_window(m: Measured) -> Value:
    """Whether a checkpoint is saved in the counted steps."""
    return len(_in_window(m, SAVE)) > 0


@metric("flag", needs_gpu=False)
def evaluates_in_window(m: Measured) -> Value:
    """Whether an evaluation runs in the counted steps."""
    return len(_in_window(m, EVAL)) > 0


@metric("ns", needs_gpu=False)
def checkpoint_ns(m: Measured) -> Value:
    """Mean time in which a checkpoint holds the training loop."""
    return _mean_ns(m, SAVE)


@metric("ns", needs_gpu=False)
def evaluation_ns(m: Measured) -> Value:
    """Mean time of an evaluation."""
    return _mean_ns(m, EVAL)


@metric("count", needs_gpu=False)
def save_interval_steps(m: Measured) -> Value:
    """Optimizer steps between two checkpoints (save_steps)."""
    return _interval(m, SAVE)


@metric("count", needs_gpu=False)
def evaluation_interval_steps(m: Measured) -> Value:
    """Optimizer steps between two evaluations (eval_steps)."""
    return _interval(m, EVAL)


@metric("count", needs_gpu=False)
def run_steps(m: Measured) -> Value:
    """Optimizer steps after which the whole run ends (max_steps)."""
    steps = m.record.number("training_arguments.max_steps")
    if steps is None or steps < 1:
        because = "no capture record gives max_steps: the run is as long as its epochs, or its loop"
        return Unknown(because, nothing_helps("the run states no number of steps"))
    return steps


@metric("share", RUN, needs_gpu=False)
def checkpoint_run_share(m: Measured) -> Value:
    """Part of the run in which the loop saves checkpoints, from one checkpoint's time and save_steps."""
    return _run_share(m, SAVE)


@metric("share", RUN, needs_gpu=False)
def most_checkpoint_run_share(m: Measured) -> Value:
    """The same without the profiler, were writing a checkpoint not slowed by it, which calls few operators, and were
    those of the window the short ones.
    """
    return _run_share(m, SAVE, slowed_by_profiler(m), WRITTEN_SLOWLY)


def slowed_by_profiler(m: Measured) -> float:
    """Profiled over unprofiled step time, 1 if not known."""
    slowed = profiler_overhead_factor(m)
    return 1.0 if isinstance(slowed, Unknown) else max(float(slowed), 1.0)


@metric("share", RUN, needs_gpu=False)
def evaluation_run_share(m: Measured) -> Value:
    """Part of the run that evaluations take, from one evaluation's time and eval_steps."""
    return _run_share(m, EVAL)


@metric("share", STEP)
def log_writing_share(m: Measured) -> Value:
    """The device idles while the host logs, saving and evaluating left out."""
    idle = m.attribution.pieces("logging")
    other = iv.union(m.ranges(SAVE), m.ranges(EVAL))
    return m.attribution.share(iv.total(iv.subtract(idle, other)))
