"""The time of every step as a drawing: the window shaded, the median as a line, and the longest steps by number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis, LaterStall, Speed, StepTimes
from diagnose.facts import duration

WIDTH, HEIGHT = 780, 220
LEFT, RIGHT, TOP, BOTTOM = 110, 764, 30, 184
LOG_FROM = 3.0  # times the median: from here on the longest step would flatten all others
_LABELLED, _APART = 3, 110  # labels, and the least distance between two, at the size of a phone's
_MARGIN = 1.05


@dataclass(frozen=True)
class StepMark:
    """A group of steps: a dot, or a line from its shortest to its longest one; hollow if the profiler was on."""

    x: float
    low: float
    high: float
    hollow: bool


@dataclass(frozen=True)
class StepLabel:
    """A step that is named at (x, y), and marked with a triangle at (`tip_x`, `tip_y`)."""

    x: float
    y: float
    text: str
    tip_x: float
    tip_y: float


@dataclass(frozen=True)
class StepCurve:
    """The drawing: `windows` are the first and the last profiled step of each as places, `ticks` are places with their
    times, `medians` are lines as (from, to, height).
    """

    marks: list[StepMark]
    labels: list[StepLabel]
    ticks: list[tuple[float, str]]
    windows: list[tuple[float, float]]
    medians: list[tuple[float, float, float]]
    first: str
    last: str
    says: str
    later: str


def step_curve(diagnosis: Diagnosis) -> StepCurve | None:
    """The drawing; None if the steps of the run were not timed."""
    times = diagnosis.step_times
    if times is None:
        return None
    longest = max(times.longest_ns)
    scale = _Scale(times, longest)
    places = [
        (scale.x(first) + scale.x(last)) / 2 for first, last in zip(times.first_step, times.last_step, strict=True)
    ]
    lows, highs = map(scale.y, times.shortest_ns), [scale.y(ns) for ns in times.longest_ns]
    hollow = [_is_profiled(times, at) for at in range(len(places))]
    at = times.longest_ns.index(longest)
    of = "" if len(diagnosis.ranks) < 2 else f" of rank {times.rank}"
    return StepCurve(
        marks=[StepMark(*mark) for mark in zip(places, lows, highs, hollow, strict=True)],
        labels=_labels(times, places, highs),
        ticks=[(scale.y(ns), duration(ns)) for ns in scale.ticks],
        windows=[(scale.x(first), scale.x(last)) for first, last in times.profiled],
        medians=_medians(diagnosis.speed, times, scale),
        first=f"step {times.first_step[0]:,}",
        last=f"step {times.last_step[-1]:,}",
        says=f"Steps{of} {times.first_step[0]:,} to {times.last_step[-1]:,}: the median one takes "
        f"{duration(times.median_ns)}, the longest {duration(longest)} ({_name(times, at)}).",
        later=_later(diagnosis.later_stalls),
    )


def _later(stalls: Sequence[LaterStall]) -> str:
    """The stalls after the last drawn step as a sentence; "" if none is known."""
    told = [
        f"step {stall.step:,} took {duration(stall.ns)}, where {duration(stall.usual_ns)} is usual" for stall in stalls
    ]
    return f"After these steps the run stalled: {'; '.join(told)}." if told else ""


class _Scale:
    """Places of steps and of times; times are on a logarithmic axis if the longest is far above the median."""

    def __init__(self, times: StepTimes, longest: int) -> None:
        self._first, self._last = times.first_step[0], max(times.last_step[-1], times.first_step[0] + 1)
        self._is_log = longest > LOG_FROM * times.median_ns
        shortest = max(min(times.shortest_ns), 1)
        self._low = shortest / _MARGIN if self._is_log else 0.0
        self._high = longest * _MARGIN
        middle = math.sqrt(self._low * self._high) if self._is_log else self._high / 2
        self.ticks = [self._low, middle, self._high] if self._is_log else [middle, self._high]

    def x(self, step: int) -> float:
        return round(LEFT + (RIGHT - LEFT) * (step - self._first) / (self._last - self._first), 1)

    def y(self, ns: float) -> float:
        if self._is_log:
            share = math.log(max(ns, self._low) / self._low) / math.log(self._high / self._low)
        else:
            share = ns / self._high
        return round(BOTTOM - (BOTTOM - TOP) * share, 1)


def _medians(speed: Speed, times: StepTimes, scale: _Scale) -> list[tuple[float, float, float]]:
    """The median of all steps without the profiler; those before and after the window, if they differ."""
    if speed.job is None and speed.before is not None and speed.after is not None and times.profiled:
        (first, _), (_, last) = times.profiled[0], times.profiled[-1]
        before = (LEFT, scale.x(first), scale.y(speed.before.step_ns))
        return [before, (scale.x(last), RIGHT, scale.y(speed.after.step_ns))]
    return [(LEFT, RIGHT, scale.y(times.median_ns))]


def _is_profiled(times: StepTimes, at: int) -> bool:
    return any(first <= times.first_step[at] <= last for first, last in times.profiled)


def _name(times: StepTimes, at: int) -> str:
    first, last = times.first_step[at], times.last_step[at]
    return f"step {first:,}" if first == last else f"in steps {first:,} to {last:,}"


def _labels(times: StepTimes, places: list[float], highs: list[float]) -> list[StepLabel]:
    """The longest steps that stand out, as far as their names do not overlap."""
    chosen: list[int] = []
    for at in sorted(range(len(places)), key=lambda at: -times.longest_ns[at]):
        far = all(abs(places[at] - places[other]) >= _APART for other in chosen)
        if len(chosen) < _LABELLED and far and times.longest_ns[at] > 1.5 * times.median_ns:
            chosen.append(at)
    return [
        StepLabel(
            min(max(places[at], LEFT + 50), RIGHT - 50), highs[at] - 9, f"step {times.first_step[at]:,}", places[at],
            highs[at],
        )
        for at in chosen
    ]  # fmt: skip
