"""Steps of several ranks as they can be drawn: each rank's step by cause on one clock, and where they meet."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.attribution.causes import WAITING
from diagnose.diagnosis import JobStep, JobTimeline, LaneKind, Meeting, RankRow, SlowStep, StepChoice
from diagnose.formulas import share
from diagnose.judge.case import Case
from diagnose.judge.lanes import Key, Row, bounded, clipped, named
from diagnose.judge.step_timeline import causes_row, streams_and_threads
from diagnose.metrics import Measured
from diagnose.ranks import GroupMatch, Job
from diagnose.ranks.collectives.clocks import Alignment, align, align_all, bases_of
from diagnose.ranks.collectives.kinds import SEND_RECEIVE, plain_kind

BUDGET: Mapping[LaneKind, int] = {"rank": 1400, "stream": 1400, "thread": 800}  # slices of all ranks in a step
FEW = 4  # ranks that share it, at least: of two each has a quarter, or a small job's page would be the largest
SOME_RANKS = 8  # of a job in which not every rank is measured in full
MEETINGS = 40


def job_timeline(case: Case, slow: Sequence[SlowStep]) -> JobTimeline | None:
    """The median and the slowest step that all drawn ranks count, and the one before the longest of the slow steps.

    It is None for a single rank, if the ranks count no step together, and if the profiler distorts the steps, since a
    drawing shows shares.
    """
    if case.only is not None or len(case.measured) < 2 or case.job.view.distortion is not None:
        return None
    breakdowns = _Breakdowns(case.job)
    drawn = _drawn(case, breakdowns)
    lengths = _lengths(case.job, list(drawn))
    if not lengths:
        return None
    chosen = _chosen_steps(lengths, slow)
    labels: dict[Key, int] = {}
    clocks = align(case.job.ranks, case.job.match)
    waits = breakdowns.waiting_of_all(chosen[0][0])
    late, is_named = _late(case.job, list(drawn), waits)
    return JobTimeline(
        steps=tuple(_Drawing(case.job, breakdowns, clocks, drawn, number, why).step(labels) for number, why in chosen),
        labels=named(labels),
        aligned=bool(case.job.match),
        late=tuple(case.job.ranks[p].rank for p in late),
        late_is_named=is_named,
        typical=_rank_at(case.job, _median([p for p in drawn if p not in late], waits)),
        ranks_left_out=len(case.job.ranks) - len(drawn),
    )


class _Breakdowns:
    """Every rank's steps by cause."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._each = [job.breakdown_by_step(position) for position in range(len(job.ranks))]

    def by_cause(self, position: int, step: int | None = None) -> dict[str, int]:
        """A counted step of the rank by cause, or all of them; empty if the rank does not count that step."""
        numbers = self._job.ranks[position].numbers
        at = slice(None) if step is None else [i for i, number in enumerate(numbers) if number == step]
        by_cause = {cause: int(ns[at].sum()) for cause, ns in self._each[position].items()}
        return {cause: ns for cause, ns in by_cause.items() if ns}

    def waiting(self, position: int, step: int | None = None) -> int | None:
        """The time of it in which the rank waits for others; None if that is not known."""
        by_cause = self.by_cause(position, step)
        return sum(by_cause.get(cause, 0) for cause in WAITING) if self._job.waits else None

    def waiting_of_all(self, step: int | None = None) -> list[int | None]:
        """The same of every rank."""
        return [self.waiting(position, step) for position in range(len(self._each))]


# Which ranks and steps are drawn.


def _drawn(case: Case, breakdowns: _Breakdowns) -> dict[int, Measured]:
    """The measured ranks by their position in the job.

    If not every rank is measured, they are the late one, the one that waits most, the median and others between.
    """
    position = {rank.rank: p for p, rank in enumerate(case.job.ranks)}
    measured = {position[m.timeline.rank]: m for m in case.measured}
    if len(measured) == len(case.job.ranks):
        return measured
    waits = breakdowns.waiting_of_all()
    by_wait = _by_waiting(list(measured), waits)
    late, _ = _late(case.job, by_wait, waits)
    chosen = {*late[: SOME_RANKS - 2], by_wait[(len(by_wait) - 1) // 2], by_wait[-1]}
    rest = [p for p in by_wait if p not in chosen]
    places = SOME_RANKS - len(chosen)
    chosen |= {rest[(2 * i + 1) * len(rest) // (2 * places)] for i in range(places) if rest}
    return {p: measured[p] for p in sorted(chosen)}


def _late(job: Job, positions: Sequence[int], waits: Sequence[int | None]) -> tuple[list[int], bool]:
    """The positions of the ranks that are named as late, else of the one that waits least; whether they are named."""
    of_rank = {job.ranks[p].rank: p for p in positions}
    late = [of_rank[straggler.rank] for straggler in job.stragglers if straggler.rank in of_rank]
    known = [p for p in _by_waiting(positions, waits) if waits[p] is not None]
    return late or known[:1], bool(late)


def _median(positions: Sequence[int], waits: Sequence[int | None]) -> int | None:
    """The position whose waiting is the median of these; None if the waits are not known."""
    known = [p for p in _by_waiting(positions, waits) if waits[p] is not None]
    return known[(len(known) - 1) // 2] if known else None


def _by_waiting(positions: Sequence[int], waits: Sequence[int | None]) -> list[int]:
    return sorted(positions, key=lambda p: (waits[p] or 0, p))


def _rank_at(job: Job, position: int | None) -> int | None:
    return None if position is None else job.ranks[position].rank


def _lengths(job: Job, positions: Sequence[int]) -> dict[int, float]:
    """The mean length over the ranks of each step that all of them count, by number."""
    ranks = [job.ranks[p] for p in positions]
    common = sorted(set.intersection(*(set(rank.numbers[: rank.steps]) for rank in ranks)))
    windows = [[rank.windows[rank.numbers.index(number)] for rank in ranks] for number in common]
    return {number: float(np.mean(np.diff(each))) for number, each in zip(common, windows, strict=True)}


def _chosen_steps(lengths: Mapping[int, float], slow: Sequence[SlowStep]) -> list[tuple[int, StepChoice]]:
    by_length = sorted(lengths, key=lambda number: (lengths[number], number))
    median, slowest = by_length[(len(by_length) - 1) // 2], by_length[-1]
    chosen: dict[int, StepChoice] = {median: "median"}
    if lengths[slowest] > lengths[median]:
        chosen[slowest] = "slowest"
    stalls = [step for step in slow if step.recorded and step.step - 1 in lengths]
    if stalls:
        chosen.setdefault(max(stalls, key=lambda step: step.factor).step - 1, "before a stall")
    return list(chosen.items())


# One step of the drawn ranks.


class _Drawing(msgspec.Struct, frozen=True):
    """The ranks that are drawn by their position in the job, their clocks, the step, and why it is drawn."""

    job: Job
    breakdowns: _Breakdowns
    clocks: Alignment
    ranks: Mapping[int, Measured]
    number: int
    why: StepChoice

    def step(self, labels: dict[Key, int]) -> JobStep:
        windows = {p: self._window(p) for p in self.ranks}
        begins = self._begins(windows)
        length = max(begins[p] + end - begin for p, (begin, end) in windows.items())
        rows, merged_below = self._rows(windows, begins, length, labels)
        meetings = sorted(self._meetings(windows, begins, length), key=_less_telling)
        return JobStep(
            step=self.number,
            chosen=self.why,
            length_ns=length,
            rows=rows,
            meetings=tuple(sorted(meetings[:MEETINGS], key=lambda meeting: min(meeting.start_ns))),
            meetings_left_out=max(len(meetings) - MEETINGS, 0),
            merged_below_ns=merged_below,
            waiting_shares=self._waiting_shares(),
        )

    def _window(self, position: int) -> tuple[int, int]:
        rank = self.job.ranks[position]
        begin, end = rank.windows[rank.numbers.index(self.number)].tolist()
        return begin, end

    def _begins(self, windows: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """When each rank begins the step, from the first on."""
        if not self.job.match:
            return dict.fromkeys(windows, 0)
        clocks, base = self._placing(), bases_of(self.job.ranks)
        at = {p: int(clocks.aligned(p, np.array([begin + base[p]]))[0]) for p, (begin, _) in windows.items()}
        first = min(at.values())
        return {p: begin - first for p, begin in at.items()}

    def _placing(self) -> Alignment:
        """The clocks of all ranks: by symmetric collectives if these join each to the first, else by any."""
        return self.clocks if self.clocks.known.all() else align_all(self.job.ranks, self.job.match)

    def _rows(
        self, windows: Mapping[int, tuple[int, int]], begins: Mapping[int, int], length: int, labels: dict[Key, int]
    ) -> tuple[tuple[RankRow, ...], int]:
        """The rows of the ranks, whose slices share one budget, and the length below which these are merged."""
        of_rank = {p: _rows_of(measured, *windows[p]) for p, measured in self.ranks.items()}
        every = [row for rows, _ in of_rank.values() for row in rows]
        budget = {kind: most * min(len(of_rank), FEW) // FEW for kind, most in BUDGET.items()}
        lanes, merged_below = bounded(every, length, budget, labels)
        left, rows = iter(lanes), []
        for p, (own, left_out) in of_rank.items():
            causes, *beside = (next(left) for _ in own)
            row = RankRow(
                rank=self.job.ranks[p].rank,
                start_ns=begins[p],
                length_ns=windows[p][1] - windows[p][0],
                residual_ns=self._residual(p),
                waiting_ns=self.breakdowns.waiting(p, self.number),
                by_cause=self.breakdowns.by_cause(p, self.number),
                causes=causes,
                lanes=tuple(beside),
                lanes_left_out=left_out,
            )
            rows.append(row)
        return tuple(rows), merged_below

    def _residual(self, position: int) -> int | None:
        residual = float(self.clocks.residual[position])
        return round(residual) if np.isfinite(residual) else None

    def _meetings(
        self, windows: Mapping[int, tuple[int, int]], begins: Mapping[int, int], length: int
    ) -> Iterator[Meeting]:
        """Yield the collectives of two or more drawn ranks that they begin within the drawing."""
        shift = {p: begins[p] - windows[p][0] for p in windows}
        for group in self.job.match:
            drawn = [m for m, p in enumerate(group.members.tolist()) if p in windows]
            if len(drawn) < 2:
                continue
            by = np.array([shift[int(group.members[m])] for m in drawn], np.int64)
            start, end = group.start[:, drawn] + by, group.end[:, drawn] + by
            inside = self._of_step(group) & (start >= 0).all(axis=1) & (start <= length).all(axis=1)
            for i in np.flatnonzero(inside).tolist():
                yield self._meeting(group, i, drawn, (start[i], end[i]))

    def _of_step(self, group: GroupMatch) -> Mask:
        first = self.job.ranks[int(group.members[0])].calls
        return np.asarray(first.step[group.call[:, 0]] == self.number)

    def _meeting(self, group: GroupMatch, instance: int, drawn: Sequence[int], times: tuple[Ints, Ints]) -> Meeting:
        first = self.job.ranks[int(group.members[0])].calls
        start, end = times
        return Meeting(
            kind=plain_kind(first.kinds[first.kind[group.call[instance, 0]]]),
            group=group.group.name,
            ranks=tuple(self.job.ranks[int(group.members[m])].rank for m in drawn),
            start_ns=tuple(start.tolist()),
            end_ns=tuple(end.tolist()),
            last=self.job.ranks[int(group.members[group.last[instance]])].rank,
        )

    def _waiting_shares(self) -> tuple[float | None, ...]:
        waits = self.breakdowns.waiting_of_all(self.number)
        lengths = [sum(self.breakdowns.by_cause(p, self.number).values()) for p in range(len(waits))]
        return tuple(None if ns is None else share(ns, length) for ns, length in zip(waits, lengths, strict=True))


def _rows_of(measured: Measured, begin: int, end: int) -> tuple[list[Row], int]:
    """The rank's step by cause, then its streams and threads, and how many of these have no row."""
    beside, left_out = streams_and_threads(measured, begin, end)
    whole = causes_row(measured, begin, end, f"rank {measured.timeline.rank}", "rank")
    rows = [clipped(row, begin, end) for row in (whole, *beside)]
    return [rows[0], *(row for row in rows[1:] if len(row.start))], left_out


def _less_telling(meeting: Meeting) -> tuple[int, int]:
    """Sends, of which each joins two ranks that wait by design, come after collectives, and those of one time last."""
    return meeting.kind == SEND_RECEIVE, min(meeting.start_ns) - max(meeting.start_ns)
