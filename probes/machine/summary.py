"""Readings of the machine in short: least, median and most over run and window, and a few of them in order."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

SERIES = ("sm_clock_mhz", "power_w", "temperature_c", "run_queue")
MOST_POINTS = 60

Reading = tuple[float, Mapping[str, float], Mapping[str, float], "tuple[str, ...] | None"]
"""When, what is so, what has happened so far, and why the GPU's clock is no higher."""


class Samples:
    """Readings in the order of time; those from `window_begins` on are the window's."""

    def __init__(self) -> None:
        self._readings: list[Reading] = []
        self._window = 0
        self._in_window = False

    def add(
        self,
        at_s: float,
        gauges: Mapping[str, float],
        counters: Mapping[str, float],
        reasons: Iterable[str] | None = None,
    ) -> int:
        """Keep a reading; how many there are."""
        self._readings.append((at_s, gauges, counters, None if reasons is None else tuple(reasons)))
        if not self._in_window:
            self._window = len(self._readings)
        return len(self._readings)

    def window_begins(self) -> None:
        """Mark the readings added from now on as the window's."""
        self._in_window = True
        self._window = len(self._readings)

    def thin_out(self) -> None:
        """Drop every second reading; those of the window stay as long as there are others."""
        before, window = self._readings[: self._window], self._readings[self._window :]
        before, window = (before[::2], window) if len(before) > 1 else (before, window[::2])
        self._readings, self._window = before + window, len(before)

    def facts(self) -> dict[str, object]:
        """The readings for the record: rates are per second of each counter, totals are of the run."""
        run = self._readings
        window = run[self._window :] if self._in_window else []
        first_s = run[0][0] if run else 0.0
        return {
            "samples": len(run),
            "in_window": len(window),
            "wall_s": run[-1][0] - first_s if run else 0.0,
            "gauges": _summaries(run, window, _gauges),
            "rates": _summaries(run, run[max(self._window - 1, 0) :] if self._in_window else [], _rates),
            "totals": _totals(run),
            "throttled": _shares(run, window),
            "series": _series(run),
        }


def _gauges(readings: list[Reading]) -> dict[str, list[float]]:
    columns: dict[str, list[float]] = {}
    for _, gauges, _, _ in readings:
        for name, value in gauges.items():
            columns.setdefault(name, []).append(value)
    return columns


def _rates(readings: list[Reading]) -> dict[str, list[float]]:
    columns: dict[str, list[float]] = {}
    for (begin, _, earlier, _), (end, _, later, _) in pairwise(readings):
        for name in earlier.keys() & later.keys():
            if end - begin > 0.1 and later[name] >= earlier[name]:  # a worker that ended takes its part along
                columns.setdefault(name, []).append((later[name] - earlier[name]) / (end - begin))
    return columns


def _summaries(
    run: list[Reading], window: list[Reading], columns: Callable[[list[Reading]], dict[str, list[float]]]
) -> dict[str, dict[str, list[float] | None]]:
    of_run, of_window = columns(run), columns(window)
    return {
        name: {"run": _three(values), "window": _three(of_window[name]) if name in of_window else None}
        for name, values in sorted(of_run.items())
    }


def _three(values: list[float]) -> list[float]:
    return [min(values), statistics.median(values), max(values)]


def _totals(run: list[Reading]) -> dict[str, float]:
    """Growth of each counter from the first to the last reading."""
    first, last = (run[0][2], run[-1][2]) if run else ({}, {})
    return {name: max(last[name] - first[name], 0.0) for name in sorted(first.keys() & last.keys())}


def _shares(run: list[Reading], window: list[Reading]) -> dict[str, dict[str, float | None]] | None:
    """For each throttle reason, the share of the readings with reasons in which it holds; None if none has any."""
    told, in_window = ([set(reasons) for *_, reasons in of if reasons is not None] for of in (run, window))
    if not told:
        return None
    names = sorted(set().union(*told))
    return {
        name: {
            "run": sum(name in reasons for reasons in told) / len(told),
            "window": sum(name in reasons for reasons in in_window) / len(in_window) if in_window else None,
        }
        for name in names
    }


def _series(run: list[Reading]) -> dict[str, list[float | None]]:
    """A few quantities in the order of time, thinned out evenly."""
    apart = -(-len(run) // MOST_POINTS) or 1
    points = run[::apart]
    told = [name for name in SERIES if any(name in gauges for _, gauges, _, _ in points)]
    series: dict[str, list[float | None]] = {name: [gauges.get(name) for _, gauges, _, _ in points] for name in told}
    return {"at_s": [at - points[0][0] for at, *_ in points], **series} if points else {}
