"""Look at a run again and again, each time at the files that have changed, and judge what they hold."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.judge import judged
from diagnose.commands.watch.figures import figures_of
from diagnose.commands.watch.held_now import held_now
from diagnose.commands.watch.last_window import LastWindow
from diagnose.commands.watch.pace import late_s, now_s
from diagnose.commands.watch.states import Told, is_over, state_of, worst
from diagnose.commands.watch.step_logs import SeenLog, StepLogs
from diagnose.commands.watch.view import RankView, View
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, printable
from diagnose.probes.bundle.disk import free_bytes
from diagnose.probes.protocol import RECORD, RUN_TIME, SCRATCH, rank_in
from diagnose.series.sources import timing_series
from diagnose.series.timing_log import TimingLog

_PART = 20  # of the time: more is not spent on reading long logs again, nor on judging them again
_MOST_MISSING = 64


class Glances:
    """The run in `folder`, which may not have begun.

    Attributes:
        rest_s: the seconds after which the logs may be read again, by what the last reading took.

    Raises:
        UserError: no armed run is there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs = StepLogs(folder)
        self._window = LastWindow(folder)
        self._series: SeriesReport | None = None
        self._judged: list[tuple[Path, TimingLog]] = []
        self._judged_at_s = self._judging_took_s = self.rest_s = 0.0
        _refuse_others(folder, self._logs.read())

    @property
    def is_analysing(self) -> bool:
        """Whether a window is being analysed, whose verdict the next views lack."""
        return self._window.is_busy

    def take(self) -> View:
        """The view at this moment."""
        is_tidied = not (self._folder / SCRATCH).is_dir()  # before the logs: then they are whole
        seen = self._read()
        self._judge(seen)
        told = {one.rank: state_of(one, one.log, self._usual_s, is_tidied) for one in seen if one.log is not None}
        ends = self._ends(seen, told, is_tidied)
        if ends:
            self._judge(seen, at_last=True)
        return self._view(seen, told, ends)

    def _read(self) -> list[SeenLog]:
        began_s = time.monotonic()
        seen = self._logs.read()
        self.rest_s = _PART * (time.monotonic() - began_s)
        return seen

    def _view(self, seen: Sequence[SeenLog], told: Mapping[int, Told], ends: bool) -> View:
        logs = {one.rank: one.log for one in seen if one.log is not None}
        state = worst([of_rank[0] for of_rank in told.values()])
        window = self._window.look([*logs.values()], ends)
        behind = min(logs.values(), key=lambda log: log.step, default=None)
        going_on = None if state in ("ended", "killed") else behind
        return View(
            state=state,
            says=_why(told, state),
            is_over=ends and not self.is_analysing,
            step=behind.step if behind else 0,
            total=behind.total if behind else None,
            facts=figures_of(logs, self._usual_s, going_on, window),
            series=self._series,
            ranks=tuple(_ranks(logs, told, window.diagnosis if window is not None else None)),
            missing=_missing(logs),
            window=window,
            problems=(*_problems(seen, ends), *(() if ends else _full_disk(self._folder))),
        )

    def close(self) -> None:
        """Leave nothing running."""
        self._window.close()

    def _judge(self, seen: Sequence[SeenLog], at_last: bool = False) -> None:
        """Judge what has changed of the series, unless that takes too much of the time; `at_last` in any case."""
        began_s = time.monotonic()
        logs = [(one.path, one.log) for one in seen if one.log is not None and one.log.blocks]
        is_early = not at_last and began_s - self._judged_at_s < _PART * self._judging_took_s
        if is_early or [id(log) for _, log in logs] == [id(log) for _, log in self._judged]:
            return
        self._series = judged(timing_series([path for path, _ in logs], [log for _, log in logs]))
        self._judged, self._judged_at_s = logs, time.monotonic()
        self._judging_took_s = self._judged_at_s - began_s

    @property
    def _usual_s(self) -> float:
        return (self._series.median_s if self._series else None) or 0.0

    def _ends(self, seen: Sequence[SeenLog], told: Mapping[int, Told], is_tidied: bool) -> bool:
        """Whether nothing more comes of any rank; without a rank, whether the run has ended."""
        over = [
            is_over(one, told[one.rank][0], (self._folder / RUN_TIME.format(one.rank)).is_file(), is_tidied)
            for one in seen
            if one.rank in told
        ]
        return all(over) if over else is_tidied


def _refuse_others(folder: Path, seen: Sequence[SeenLog]) -> None:
    """Refuse a folder in which no armed run is, or can begin."""
    do = "name the folder of a job that was started with: diagnose run --arm -- COMMAND"
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError as error:
        why = error.strerror or str(error)
        raise UserError("cannot read the folder of the run", where=folder, why=why, do=do) from error
    if seen:
        return
    if any(rank_in(name, RECORD) is not None for name in names):
        raise UserError("no armed run", where=folder, why="it is a capture of one window", do=do)
    if SCRATCH not in names:
        raise UserError("no armed run", where=folder, why="it holds no step log", do=do)


def _why(told: Mapping[int, Told], state: str) -> str:
    """Why the job is in this state, by the ranks that are."""
    ranks = [rank for rank, of_rank in told.items() if of_rank[0] == state]
    says = told[ranks[0]][1] if ranks else ""
    if len(told) < 2 or not says:
        return says
    listed = ", ".join(map(str, ranks[:8])) + (", ..." if ranks[8:] else "")
    return f"{'all ranks' if len(ranks) == len(told) else f'rank {listed}'}: {says}"


def _ranks(logs: Mapping[int, TimingLog], told: Mapping[int, Told], diagnosis: Diagnosis | None) -> list[RankView]:
    """The ranks, the latest first: by what others waited for them in the window, then by when they ended a step."""
    late = late_s(logs)
    waited = {one.rank: one.share for one in diagnosis.stragglers} if diagnosis is not None else {}
    ranks = [
        RankView(
            rank=rank,
            host=log.host,
            state=told[rank][0],
            says=told[rank][1],
            step=log.step,
            now_s=now_s(log),
            late_s=late.get(rank),
            waited_share=None if diagnosis is None else waited.get(rank, 0.0),
            **held_now(log),
            why_no_gpu=log.why_no_gpu or log.why_no_readings,
        )
        for rank, log in logs.items()
    ]
    return sorted(ranks, key=lambda one: (-(one.waited_share or 0.0), -(one.late_s or 0.0), one.step, one.rank))


def _missing(logs: Mapping[int, TimingLog]) -> tuple[int, ...]:
    size = max((log.world_size for log in logs.values()), default=0)
    return tuple(rank for rank in range(size) if rank not in logs)[:_MOST_MISSING]


def _problems(seen: Sequence[SeenLog], ends: bool) -> list[str]:
    """The faults of the files; a last line that is being written is none."""
    told = [printable(f"{one.path.name}: {one.problem}") for one in seen if one.problem]
    for one in seen:
        unread = one.log.unread if one.log is not None else 0
        if unread > (not ends):
            told.append(f"{one.path.name}: {unread:,} unreadable line{'s' * (unread > 1)} left out")
    return told


def _full_disk(folder: Path) -> list[str]:
    return ["the disk of this folder is full"] if free_bytes(folder) == 0 else []
