"""One logical host timeline: the calls that launch or block, and the host time before and inside them by cause.

Main and autograd threads hand over to each other, so the calls of all launching threads form one sequence; if two calls
overlap, the time counts once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Floats, Ints, Mask
from diagnose.attribution.causes import IDLE
from diagnose.attribution.host_time import host_time
from diagnose.attribution.idle import Host
from diagnose.intervals import Intervals
from diagnose.predict.replay.host_speeds import RecordedCause, recorded_by
from diagnose.predict.replay.lru import lru_cached
from diagnose.timeline import Timeline
from diagnose.trace.spill import narrowest
from diagnose.trace.vocabulary import SYNCHRONISATION

CAUSES = IDLE
DISPATCH = CAUSES.index("dispatch")
ISSUING = [DISPATCH, CAUSES.index("optimizer-host")]
END_OF_STEP = -1

_BLOCK = 1 << 12  # calls whose times by cause stay in the processor's cache
_SYNCHRONISES = re.compile(rf"({SYNCHRONISATION}|(cuda|hip)Free$)")


@dataclass(frozen=True)
class ByCause:
    """Nanoseconds of host time at each of `rows` calls, by the number of the cause in CAUSES; few causes have any."""

    rows: int
    columns: Mapping[int, Ints]
    _known: dict[bytes, Floats] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, cause: int) -> Floats:
        """The time of one cause."""
        found = self.columns.get(cause)
        return np.zeros(self.rows) if found is None else found.astype(np.float64)

    def total(self) -> Floats:
        """The time of all causes."""
        return np.sum([self.of(cause) for cause in self.columns], axis=0) if self.columns else np.zeros(self.rows)

    def weighted(self, factors: Floats) -> Floats:
        """The sum of the causes, each with its factor, shape (rows,), which is kept and not to be written to."""
        return lru_cached(self._known, factors.tobytes(), lambda: self._weighted(factors))

    def _weighted(self, factors: Floats) -> Floats:
        """The weighted sums, computed without BLAS, whose threads keep every core busy while they wait."""
        weighted, times = np.empty(self.rows), np.zeros((min(_BLOCK, self.rows), len(CAUSES)))
        for begin in range(0, self.rows, _BLOCK):
            block = times[: self.rows - begin]
            for cause, ns in self.columns.items():
                block[:, cause] = ns[begin : begin + _BLOCK]
            np.einsum("ij,j->i", block, factors, out=weighted[begin : begin + _BLOCK])
        return weighted


@dataclass(frozen=True)
class HostCalls:
    """The host calls of the replayed steps in order, each step closed by a row END_OF_STEP without length.

    Attributes:
        row: row of the trace, or END_OF_STEP.
        called: when the call began by the trace.
        start: the same, but not before all earlier calls had returned.
        end: when it and all earlier calls had returned.
        synchronises: whether the call waits for the device (freeing device memory does).
        before: host time by cause since the previous call.
        inside: the same during this one.
        recorded: of each cause, what the host did in a step.
    """

    row: Ints
    called: Ints
    start: Ints
    end: Ints
    synchronises: Mask
    before: ByCause
    inside: ByCause
    recorded: Mapping[str, RecordedCause]

    def __len__(self) -> int:
        return len(self.row)


def calls_of(timeline: Timeline, windows: Ints, counted: Ints | None = None) -> HostCalls:
    """The calls that launch GPU activities or wait for them, within host windows in order, shape (n, 2).

    Host time counts as far as it lies in `counted`, a part of each window; in all of it by default.
    """
    counted = windows if counted is None else counted
    host = Host(timeline, (int(windows[:, 0].min()), int(windows[:, 1].max())) if len(windows) else None)
    synchronises = host.runtime & timeline.trace.named(_SYNCHRONISES.match)
    row, step = _rows(timeline, windows, synchronises)
    trace, (first, last) = timeline.trace, counted[step].T
    called = np.where(row >= 0, trace.ts[row], windows[step, 1])
    returned = np.where(row >= 0, np.clip(trace.ts[row] + trace.dur[row], first, last), last)
    reached = _reached(step, returned, counted)
    start, end = np.maximum(np.clip(called, first, last), reached), np.maximum(returned, reached)
    painted = host_time(host, counted)
    return HostCalls(
        row=row,
        called=called,
        start=start,
        end=end,
        synchronises=(row >= 0) & synchronises[row],
        before=_by_cause(painted, reached, start),
        inside=_by_cause(painted, start, end),
        recorded=recorded_by(trace, painted, max(len(windows), 1)),
    )


def _rows(timeline: Timeline, windows: Ints, synchronises: Mask) -> tuple[Ints, Ints]:
    """Rows of the calls and of the ends of the steps, in order, and the step of each."""
    trace, wanted = timeline.trace, synchronises.copy()
    wanted[timeline.gpu.launch[timeline.gpu.launch >= 0]] = True
    rows = np.flatnonzero(wanted)
    step = iv.which_holds(windows, trace.ts[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    order = np.lexsort((trace.dur[rows], trace.ts[rows], step))
    last = np.searchsorted(step[order], np.arange(len(windows)), side="right")
    return np.insert(rows[order], last, END_OF_STEP), np.insert(step[order], last, np.arange(len(windows)))


def _reached(step: Ints, returned: Ints, windows: Ints) -> Ints:
    """The time at which all earlier calls of the same step have returned."""
    reached = np.empty(len(returned), np.int64)
    first = np.searchsorted(step, np.arange(len(windows) + 1))
    for number, begin in enumerate(windows[:, 0]):
        of_step = slice(first[number], first[number + 1])
        reached[of_step] = np.maximum.accumulate(np.concatenate(([begin], returned[of_step][:-1])))
    return reached


def _by_cause(painted: dict[str, Intervals], start: Ints, end: Ints) -> ByCause:
    spent = {CAUSES.index(cause): iv.coverage(pieces, start, end) for cause, pieces in painted.items()}
    return ByCause(len(start), {cause: ns.astype(narrowest(ns)) for cause, ns in spent.items() if ns.any()})
