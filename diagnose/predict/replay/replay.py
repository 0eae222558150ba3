"""The replay of one rank: the step time that the trace's own medians give, and the one that a change would."""

import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from diagnose.arrays import Coded, Floats, Ints
from diagnose.attribution.attribution import Attribution
from diagnose.predict.replay.change import StepChange
from diagnose.predict.replay.costs import ReplayCosts, check_aligned, costs_of
from diagnose.predict.replay.host_breakdown import HostBreakdown
from diagnose.predict.replay.host_speeds import (
    SLOWEST_PROFILER,
    HostSpeeds,
    RecordedCause,
    likely_speeds,
    speeds_that_fit,
)
from diagnose.predict.replay.items import Items, items_of
from diagnose.predict.replay.links import Runs
from diagnose.predict.replay.passes import passes
from diagnose.timeline import Timeline
from diagnose.timeline.steps import WHOLE, host_steps

STEPS = 3
MOST_ACTIVITIES = 100_000  # of several steps: a replay walks all of them, tens of times
STRICT_ERROR_LIMIT = 0.05
BETWEEN_STEPS_SHARE = 0.1  # of a step: a longer pause before it is not part of it
DEVICE_BOUND_SHARE = 0.02
INSTANT = 1e-6  # on a kernel: one of 0 would vanish with its launch
ALIKE_SHARE = 0.05  # of the mean step: replayed steps that lie further apart from it predict for other steps
ODD_FACTOR = 2.0  # of the median step: a longer one may not recur on the device as soon as in the trace
LINKED_AT_LEAST = 0.5  # of the activities of the replayed steps
NOT_SHOWN = "kernels wait for something the trace does not show: another process on the GPU, or other ranks"
ELSEWHERE = "kernels wait for another GPU of the process, whose work is not replayed"
NOT_STEADY = "the host takes longer than the device in these steps, so they do not last: profile more of them"
NOT_RECORDED = "kernels were launched, but what the GPU did was not recorded"
NOT_KNOWN = "the job runs on a device whose activities diagnose does not know"
NOT_LINKED = "the trace does not link kernels to the calls that launched them"
NOT_ALIKE = "its steps take so different times that those few that can be replayed do not stand for all"
NO_STEP = "the trace holds no step"


@dataclass(frozen=True)
class Replay:
    """Steps of one rank that can be replayed with a change.

    Attributes:
        steps: the replayed steps, as rows of the counted steps: on a device, a sample of them.
        measured_ns: mean time of these steps, on the device if there is one.
        waits: rows of the trace of the calls in them that wait for the device, for `StepChange.no_wait`.
        recorded: the host's work in such a step by cause, as far as `StepChange.host_speeds` scales it.
    """

    steps: tuple[int, ...]
    measured_ns: float
    waits: Ints
    _replayed_ns: Callable[[StepChange], float]
    _communicates: bool
    _obstacle: str = ""
    recorded: Mapping[str, RecordedCause] = field(default_factory=dict)
    _drawn_ns: Callable[[StepChange], Floats] | None = None
    _unseen: str = NOT_SHOWN

    @classmethod
    def of(cls, timeline: Timeline, attribution: Attribution) -> "Replay":
        """Prepare at most STEPS steps, fewer if they are large.

        Without a GPU a step is its breakdown of host time. All counted steps are then replayed, at no cost, so that the
        shares of the report are those of the prediction.
        """
        if not timeline.has_gpu:
            return _on_host(timeline, attribution)
        return _on_device(timeline, attribution.windows[:, 1] - attribution.windows[:, 0])

    @classmethod
    def failed(cls, because: str) -> "Replay":
        """A replay that predicts nothing, for the given reason."""
        return cls((), 0.0, np.zeros(0, np.int64), lambda change: 0.0, False, because)

    def step_ns(self, change: StepChange | None = None) -> float:
        """Nanoseconds of a step, as it is or with a change, when such steps follow each other for ever."""
        if change is None:
            return self._unchanged_ns
        changed = self._replayed_ns(change)
        keeps_end = change.communication_keeps == "end" and self._communicates
        return max(changed, self._unchanged_ns) if keeps_end else changed

    @property
    def draws(self) -> bool:
        """Whether `drawn_ns` returns draws."""
        return self._drawn_ns is not None

    def drawn_ns(self, change: StepChange) -> Floats | None:
        """Step times with the change in resampled draws of the same steps, shape (draws,).

        None if steps are not drawn: on a device, or if there is only one.
        """
        return None if self._drawn_ns is None else self._drawn_ns(change)

    @cached_property
    def _unchanged_ns(self) -> float:
        return self._replayed_ns(StepChange())

    @property
    def strict_error(self) -> float:
        """Relative difference between the unchanged replay and the measured steps."""
        return abs(self._unchanged_ns / self.measured_ns - 1) if self.measured_ns else np.inf

    @property
    def valid(self) -> bool:
        """Whether predictions may be shown."""
        return not self.because

    @property
    def because(self) -> str:
        """The reason why predictions are withheld, "" if they are not."""
        if self._obstacle or self.strict_error <= STRICT_ERROR_LIMIT:
            return self._obstacle
        return self._unseen if self._unchanged_ns < self.measured_ns else NOT_STEADY


def host_speeds_for(
    replay: Replay, unprofiled_step_ns: float, told_ns: Mapping[str, float] | None = None
) -> HostSpeeds:
    """The factors on host time at which the unchanged replay takes as long as a step without the profiler.

    All 1.0 if the device bounds the step anyway: no factor is derived from less than DEVICE_BOUND_SHARE of the step.

    Args:
        replay: the profiled steps.
        unprofiled_step_ns: the step without the profiler.
        told_ns: time of causes in that step, if known from another source.
    """
    known = {cause: ns / replay.recorded[cause].ns for cause, ns in (told_ns or {}).items() if cause in replay.recorded}
    fastest = replay.step_ns(StepChange(host_speeds=HostSpeeds(SLOWEST_PROFILER, known)))
    wanted = max(unprofiled_step_ns, fastest * (1 + DEVICE_BOUND_SHARE))
    return speeds_that_fit(
        replay.recorded, known, lambda speeds: replay.step_ns(StepChange(host_speeds=speeds)) <= wanted
    )


def host_speeds_ahead(replay: Replay, activities: int, host_ns: float) -> HostSpeeds:
    """The factors on host time at which the host takes `host_ns` for a step beside a device that takes no time.

    Args:
        replay: the profiled steps.
        activities: how many the device has.
        host_ns: a step on the host without the profiler that did not wait for the device.
    """
    at_once = Coded(np.zeros(activities, np.uint8), np.array([INSTANT]))

    def fits(speeds: HostSpeeds) -> bool:
        return replay.step_ns(StepChange(kernels=at_once, host_speeds=speeds)) <= host_ns

    return speeds_that_fit(replay.recorded, {}, fits)


def likely_host_speeds_for(replay: Replay, slowest: HostSpeeds) -> HostSpeeds:
    """Factors on host time that are likely, at which the unchanged replay takes as long as at the `slowest` ones.

    Args:
        replay: the profiled steps.
        slowest: the factors by `host_speeds_for`, 1.0 if a busy device hides them.
    """
    enough = (1 - DEVICE_BOUND_SHARE) * replay.step_ns(StepChange(host_speeds=slowest))

    def fits(speeds: HostSpeeds) -> bool:
        return replay.step_ns(StepChange(host_speeds=speeds)) >= enough

    return likely_speeds(replay.recorded, slowest, fits)


def _mostly_linked(timeline: Timeline, activity: Ints) -> bool:
    """Whether enough activities wait for a call, so that a change of the host's time reaches the device."""
    return bool(len(activity)) and bool((timeline.gpu.launch[activity] >= 0).mean() >= LINKED_AT_LEAST)


def _on_device(timeline: Timeline, lengths: Ints) -> Replay:
    steps = _standing_for_all(timeline, lengths)
    if not _stand_for_all(lengths, steps):
        return Replay.failed(NOT_ALIKE)
    windows = _host_windows(timeline, steps)
    items = items_of(timeline, windows, _counted(timeline, steps, windows))
    activity = items.activity[items.activity >= 0]
    communicates = bool(timeline.gpu.is_communication[activity].any())
    waiting = items.call[(items.wait != -1) & (items.call >= 0)]
    return Replay(
        steps,
        _measured_ns(timeline, steps),
        np.sort(items.calls.row[waiting]),
        _remembered(partial(_device_step_ns, timeline, items, len(steps)), items, communicates),
        communicates,
        "" if _mostly_linked(timeline, activity) else NOT_LINKED,
        items.calls.recorded,
        _unseen=_what_kernels_wait_for(timeline, lengths),
    )


def _what_kernels_wait_for(timeline: Timeline, lengths: Ints) -> str:
    """The reason why the steps take longer than the same steps repeated for ever."""
    if timeline.other_gpus.count:
        return ELSEWHERE
    return NOT_ALIKE if lengths.max() > ODD_FACTOR * np.median(lengths) else NOT_SHOWN


def _standing_for_all(timeline: Timeline, lengths: Ints) -> tuple[int, ...]:
    """Steps whose mean is that of all, in order, as few as hold little enough.

    They are the STEPS closest to the median, unless what happens in some steps alone makes the mean another one: then
    all of them, or as many from the shortest to the longest.
    """
    each = len(timeline.gpu) / max(len(lengths), 1)
    most = max(int(MOST_ACTIVITIES / each), 1) if each else len(lengths)
    nearest = np.argsort(np.abs(lengths - np.median(lengths)), kind="stable")[: min(most, STEPS)]
    typical = tuple(sorted(nearest.tolist()))
    if _stand_for_all(lengths, typical):
        return typical
    order, count = np.argsort(lengths, kind="stable"), min(most, len(lengths))
    spread = order[(np.arange(count) * 2 + 1) * len(lengths) // (2 * count)]
    return tuple(sorted(spread.tolist()))


def _stand_for_all(lengths: Ints, steps: tuple[int, ...]) -> bool:
    """Whether these steps have about the mean of all steps, which the report is about."""
    return bool(abs(lengths[list(steps)].mean() - lengths.mean()) <= ALIKE_SHARE * lengths.mean()) if steps else True


def _device_step_ns(timeline: Timeline, items: Items, steps: int, change: StepChange) -> float:
    return period_ns(costs_of(timeline.gpu, items, change)) / steps


def _remembered(
    replayed_ns: Callable[[StepChange], float], items: Items, communicates: bool
) -> Callable[[StepChange], float]:
    """The same, each change replayed once: rules with different remedies often ask for one, alone and in a plan."""
    known: dict[Hashable, float] = {}
    activity, rows = items.activity[items.activity >= 0], items.calls.row[items.calls.row >= 0]

    def step_ns(change: StepChange) -> float:
        check_aligned(items, change)
        content = change.content(activity, rows, communicates)
        if content not in known:
            known[content] = replayed_ns(change)
        return known[content]

    return step_ns


def _host_windows(timeline: Timeline, steps: tuple[int, ...]) -> Ints:
    """Host windows of the steps, each from the end of the step before it if that is near."""
    host = timeline.steps.host[list(steps)]
    ends = np.sort(host_steps(timeline.trace).host[:, 1])
    earlier = ends[np.maximum(np.searchsorted(ends, host[:, 0], side="right") - 1, 0)]
    pause = host[:, 0] - earlier
    near = (pause >= 0) & (pause < BETWEEN_STEPS_SHARE * (host[:, 1] - host[:, 0]))
    return np.stack((np.where(near, earlier, host[:, 0]), host[:, 1]), axis=1)


def _counted(timeline: Timeline, steps: tuple[int, ...], windows: Ints) -> Ints:
    """The part of each window in which the host's time counts: all of it, or of a whole capture what the report shows.

    Before the first activity and after the last one the host may start CUDA, load modules, or end the profiler.
    """
    if timeline.steps.source not in WHOLE:
        return windows
    device = timeline.steps.device[list(steps)]
    return np.stack((device[:, 0], np.clip(windows[:, 1], device[:, 0], device[:, 1])), axis=1)


def _measured_ns(timeline: Timeline, steps: tuple[int, ...]) -> float:
    """Mean device step.

    A marked step without one before it ends on the device before the host is done, so it counts as long as on the host:
    the host's work after its last launch delays the device in the next step, which such a trace may not hold.
    """
    device, host = timeline.steps.device[list(steps)], timeline.steps.host[list(steps)]
    lengths, on_host = device[:, 1] - device[:, 0], host[:, 1] - host[:, 0]
    if timeline.steps.source in WHOLE:
        return float(lengths.mean())
    first = (device[:, 0] == host[:, 0]) | (timeline.steps.count == 1)
    return float(np.where(first, np.maximum(lengths, on_host), lengths).mean())


def _on_host(timeline: Timeline, attribution: Attribution) -> Replay:
    breakdown = HostBreakdown.of(timeline.trace, attribution)
    measured = float((attribution.windows[:, 1] - attribution.windows[:, 0]).mean()) if breakdown.steps else 0.0
    unseen = NOT_KNOWN if timeline.unknown_device else NOT_RECORDED
    return Replay(
        tuple(range(breakdown.steps)),
        measured,
        np.zeros(0, np.int64),
        breakdown.step_ns,
        breakdown.communicates,
        unseen if timeline.capture_failed else "" if measured else NO_STEP,
        breakdown.recorded,
        breakdown.drawn_ns if breakdown.steps > 1 else None,
    )


# The loop over the items, pass after pass, until each takes as long as the one before.

_CONVERGED = 1e-6


def period_ns(costs: ReplayCosts) -> float:
    """Nanoseconds of one pass over the items when passes repeat for ever.

    Runs of items bound it from above with their shorter queue and from below with an endless one. Only if these differ
    are the items looped over one by one.
    """
    if (runs := runs_of(costs)) is None:
        return by_items_ns(costs)
    most = by_items_ns(runs)
    endless = replace(runs, links=replace(runs.links, queue=sys.maxsize))
    if most <= _least_ns(costs) or most <= by_items_ns(endless) * (1 + _CONVERGED):
        return most
    return by_items_ns(costs)


def by_items_ns(costs: ReplayCosts) -> float:
    """The same from a loop over all items.

    Host, streams and queues form a max-plus linear system: every time is a maximum of sums of durations. The greatest
    advance of any of its clocks over a pass does not grow from pass to pass, and ends at the period, which no shorter
    duration can lengthen (Baccelli, Cohen, Olsder, Quadrat: Synchronization and Linearity, 1992, chapter 3). No clock
    can do with less than its own work.
    """
    least, clocks = _least_ns(costs), passes(costs)
    last, advance = next(clocks), np.zeros(1)
    for now in clocks:
        before, advance, last = advance, now - last, now
        if advance.max() <= least or (np.abs(advance - before) <= advance.max() * _CONVERGED).all():
            break
    return float(advance.max())


def _least_ns(costs: ReplayCosts) -> float:
    """The work of the busiest clock, and what the last digits may add."""
    return costs.busiest_ns * (1 + _CONVERGED)


# Items that follow each other undisturbed on one stream, as one item each: the same clocks from far fewer of them.


def runs_of(costs: ReplayCosts) -> ReplayCosts | None:
    """The runs of the items as items, with a queue that holds runs; None if the queue is too short for that.

    Nothing waits inside a run, so its effect on the clocks of host and stream is one sum and one maximum of sums: in
    max-plus algebra a product of matrices, which may be taken in any grouping. Unless queues fill, the clocks at the
    ends of the runs are those of the items. If they do fill, the clocks of the runs are no earlier: a run has to wait
    before its first call for everything that its last one could find in the queue.
    """
    if (runs := costs.links.runs) is None:
        return None
    busy = np.add.reduceat(costs.busy, runs.first)
    gap = np.where(runs.used, costs.gap[runs.opening], 0.0)
    return ReplayCosts(
        links=runs.links,
        before=costs.before[runs.first],
        own=np.add.reduceat(costs.host, runs.first) - costs.before[runs.first],
        latency=np.maximum.reduceat(_launched_end(costs, busy, runs), runs.first) - (busy - gap),
        gap=gap,
        duration=busy - gap,
        edge_ns=costs.edge_ns,
    )


def _launched_end(costs: ReplayCosts, busy: Floats, runs: Runs) -> Floats:
    """The end of each item's run if the item starts as soon as its launch allows, relative to the call that the run's
    launches count from: its own first call, or that of the item that launched all of it.

    `busy` is the stream's time for each run.
    """
    called = _sum_before(costs.host, runs) + costs.before - np.repeat(costs.before[runs.first], runs.lengths)
    after = np.repeat(busy, runs.lengths) - _sum_before(costs.busy, runs) - costs.busy
    since = np.where(runs.caller >= 0, called[runs.caller], 0.0)
    bound = costs.links.on_device & (costs.links.owner >= 0)
    return np.where(bound, since + costs.latency + costs.duration + after, -np.inf)


def _sum_before(values: Floats, runs: Runs) -> Floats:
    """For each item the sum over those of its run before it."""
    before = np.cumsum(values) - values
    return before - np.repeat(before[runs.first], runs.lengths)
