"""Checkpoints and evaluations: how long one takes, and what share of the run they are at their interval."""

from typing import NamedTuple

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Floats, Ints
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, another_run, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.capture import profiler_overhead_factor
from diagnose.probes.protocol import EVAL_RANGE, SAVE_RANGE
from diagnose.trace.light_steps import every_step
from diagnose.trace.vocabulary import EVAL, SAVE

RUN = "the run"
WRITTEN_SLOWLY = 1.5  # times as long other checkpoints may take: an estimate, for what disks do with the same bytes
_WHERE = {SAVE: ("save", SAVE_RANGE, "a checkpoint was saved"), EVAL: ("eval", EVAL_RANGE, "an evaluation ran")}


class _Light(NamedTuple):
    """The steps without the profiler, and the time of each in ranges of one name."""

    number: Ints
    ns: Floats
    within_ns: Floats

    @property
    def holding(self) -> Ints:
        """The rows with such a range."""
        return np.flatnonzero(self.within_ns > 0)


def _light(m: Measured, pattern: str) -> _Light | None:
    """The steps of the record; None if it does not hold them."""
    every = every_step(m.record)
    if every is None or every.profiled.all():
        return None
    rows, within = ~every.profiled, every.ranges_ns.get(_WHERE[pattern][1])
    return _Light(every.number[rows], every.ns[rows], np.zeros(rows.sum()) if within is None else within[rows])


def _in_window(m: Measured, pattern: str) -> iv.Intervals:
    host = m.timeline.steps.host
    return iv.clip(m.ranges(pattern), int(host[0, 0]), int(host[-1, 1])) if len(host) else iv.EMPTY


def _happens(m: Measured, pattern: str) -> bool:
    light = _light(m, pattern)
    return len(_in_window(m, pattern)) > 0 or (light is not None and len(light.holding) > 0)


def _mean_ns(m: Measured, pattern: str) -> float | Unknown:
    """The mean of the steps without the profiler, else of the window."""
    light, ranges = _light(m, pattern), _in_window(m, pattern)
    if light is not None and len(light.holding):
        return float(light.within_ns[light.holding].mean())
    if len(ranges):
        return iv.total(ranges) / len(ranges)
    then = another_run("capture a window in which it happens (diagnose run --at-step)")
    return Unknown(f"{_WHERE[pattern][2]} in no timed step", then)


def _interval(m: Measured, pattern: str) -> float | Unknown:
    """The interval that the settings say, else the one that the steps show."""
    name = _WHERE[pattern][0]
    by_steps = m.record.text(f"training_arguments.{name}_strategy") in ("steps", None)
    steps = m.record.number(f"training_arguments.{name}_steps") if by_steps else None
    if steps is not None and steps >= 1:
        return steps
    return _observed_interval(m, pattern)


def _observed_interval(m: Measured, pattern: str) -> float | Unknown:
    light, ranges = _light(m, pattern), _in_window(m, pattern)
    if light is not None and len(light.holding) > 1:
        return float(np.median(np.diff(light.number[light.holding])))
    if len(ranges) > 1:
        return len(m.timeline.steps.host) / len(ranges)
    name = _WHERE[pattern][0]
    return Unknown(f"no setting gives {name}_steps as a number of steps, and fewer than two are seen", DIAGNOSE_RUN)


def plain_step_ns(m: Measured, pattern: str = SAVE) -> float:
    """Median step without the profiler and without the ranges of the pattern, else the mean host step of the window."""
    light, host = _light(m, pattern), m.timeline.steps.host
    if light is not None:
        return float(np.median(light.ns - light.within_ns))
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
def saves_in_capture(m: Measured) -> Value:
    """Whether a checkpoint is saved in the steps that the capture timed, with the profiler or without."""
    return _happens(m, SAVE)


@metric("flag", needs_gpu=False)
def evaluates_in_capture(m: Measured) -> Value:
    """Whether an evaluation runs in the steps that the capture timed, with the profiler or without."""
    return _happens(m, EVAL)


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
    """Optimizer steps between two checkpoints: save_steps, else as seen."""
    return _interval(m, SAVE)


@metric("count", needs_gpu=False)
def evaluation_interval_steps(m: Measured) -> Value:
    """Optimizer steps between two evaluations: eval_steps, else as seen."""
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
    """Part of the run in which the loop saves checkpoints, from one checkpoint's time and the steps between two."""
    return _run_share(m, SAVE)


@metric("share", RUN, needs_gpu=False)
def most_checkpoint_run_share(m: Measured) -> Value:
    """The same without the profiler, were writing a checkpoint not slowed by it, which calls few operators, and were
    those of the window the short ones.
    """
    return _run_share(m, SAVE, slowed_by_profiler(m), WRITTEN_SLOWLY)


def slowed_by_profiler(m: Measured) -> float:
    """How much longer the profiler makes `plain_step_ns`: 1 if that is of steps without it, or not known."""
    slowed = profiler_overhead_factor(m)
    return 1.0 if _light(m, SAVE) is not None or isinstance(slowed, Unknown) else max(float(slowed), 1.0)


@metric("share", RUN, needs_gpu=False)
def evaluation_run_share(m: Measured) -> Value:
    """Part of the run that evaluations take, from one evaluation's time and the steps between two."""
    return _run_share(m, EVAL)


@metric("share", STEP)
def log_writing_share(m: Measured) -> Value:
    """The device idles while the host logs, saving and evaluating left out."""
    idle = m.attribution.pieces("logging")
    other = iv.union(m.ranges(SAVE), m.ranges(EVAL))
    return m.attribution.share(iv.total(iv.subtract(idle, other)))
