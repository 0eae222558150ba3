"""Look at a run again and again, each time at the files that have changed, and judge what they hold."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.judge import judged
from diagnose.commands.watch.last_window import LastWindow
from diagnose.commands.watch.pace import late_s, mean_s, now_s
from diagnose.commands.watch.states import Told, is_over, state_of, worst
from diagnose.commands.watch.step_logs import SeenLog, StepLogs
from diagnose.commands.watch.view import RankView, View, WindowView
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, printable
from diagnose.facts import STEP, Fact, Unknown, Value
from diagnose.probes.bundle.disk import free_bytes
from diagnose.probes.protocol import RECORD, RUN_TIME, SCRATCH, rank_in
from diagnose.series.sources import timing_series
from diagnose.series.timing_log import TimingLog

_PART = 20  # of the time: more is not spent on reading long logs again, nor on judging them again
_NO_TOTAL = "only a trainer says how many steps its loop has"
_NO_WINDOW = "no window has been recorded yet (diagnose trigger RUN opens one)"
_NO_STEPS = "no step has been timed yet"
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
        self._judged_at_s = self._judging_took_s = self.rest_s = 0.0
        _refuse_others(folder, self._logs.read())

    @property
    def is_analysing(self) -> bool:
        """Whether a window is being analysed, whose verdict the next views lack."""
        return self._window.is_busy

    def take(self) -> View:
        """The view at this moment."""
        is_tidied = not (self._folder / SCRATCH).is_dir()  # before the logs: then they are whole
        began_s = time.monotonic()
        seen = self._logs.read()
        self.rest_s = _PART * (time.monotonic() - began_s)
        logs = {one.rank: one.log for one in seen if one.log is not None}
        self._judge(seen)
        usual_s = (self._series.median_s if self._series else None) or 0.0
        told = {one.rank: state_of(one, one.log, usual_s, is_tidied) for one in seen if one.log is not None}
        state = worst([of_rank[0] for of_rank in told.values()])
        over = [self._is_over(one, told[one.rank], is_tidied) for one in seen if one.rank in told]
        ends = all(over) if over else is_tidied
        window = self._window.look([*logs.values()], ends)
        behind = min(logs.values(), key=lambda log: log.step, default=None)
        return View(
            state=state,
            says=_why(told, state),
            is_over=ends and not self.is_analysing,
            step=behind.step if behind else 0,
            total=behind.total if behind else None,
            facts=tuple(_facts(logs, usual_s, None if state in ("ended", "killed") else behind, window)),
            series=self._series,
            ranks=tuple(_ranks(logs, told, window.diagnosis if window is not None else None)),
            missing=_missing(logs),
            window=window,
            problems=(*_problems(seen, ends), *(() if ends else _full_disk(self._folder))),
        )

    def close(self) -> None:
        """Leave nothing running."""
        self._window.close()

    def _judge(self, seen: Sequence[SeenLog]) -> None:
        """Judge the series anew, unless that takes too much of the time."""
        began_s = time.monotonic()
        logs = [(one.path, one.log) for one in seen if one.log is not None and one.log.blocks]
        if not logs or began_s - self._judged_at_s < _PART * self._judging_took_s:
            return
        series = timing_series([path for path, _ in logs], [log for _, log in logs])
        self._series = judged(series)
        self._judged_at_s = time.monotonic()
        self._judging_took_s = self._judged_at_s - began_s

    def _is_over(self, seen: SeenLog, told: Told, is_tidied: bool) -> bool:
        return is_over(seen, told[0], (self._folder / RUN_TIME.format(seen.rank)).is_file(), is_tidied)


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


def _facts(
    logs: Mapping[int, TimingLog], usual_s: float, going_on: TimingLog | None, window: WindowView | None
) -> list[Fact]:
    """The figures of the run; `going_on` is the log of a loop that has not ended, None if there is none."""
    now = max((took for log in logs.values() if (took := now_s(log)) is not None), default=None)
    unknown = Unknown(_NO_STEPS, None)
    found = window.diagnosis if window is not None else None
    why = _NO_WINDOW if window is None else f"the window at step {window.first_step:,}: {window.because}"
    return [
        Fact("now", unknown if now is None else now * 1e9, "ns"),
        Fact("usual", usual_s * 1e9 if usual_s else unknown, "ns"),
        Fact("left", _left(going_on), "ns"),
        Fact("tokens_per_s", _per_s(found, "global_batch_tokens", now, why), "count"),
        Fact("samples_per_s", _per_s(found, "global_batch_samples", now, why), "samples_per_s"),
        _mfu(found, why),
        _of_window(found, "data_wait_share", why),
    ]


def _left(log: TimingLog | None) -> Value:
    """Nanoseconds until the loop ends, if its other steps take as long as those so far."""
    if log is None or log.total is None:
        return Unknown(_NO_TOTAL if log is not None else "no loop goes on", None)
    mean = mean_s(log)
    return Unknown(_NO_STEPS, None) if mean is None else max(log.total - log.step, 0) * mean * 1e9


def _per_s(diagnosis: Diagnosis | None, batch: str, now_s: float | None, why: str) -> Value:
    """The batch of all ranks, as the window shows it, over the step time now."""
    size = _of_window(diagnosis, batch, why).value
    if isinstance(size, Unknown):
        return size
    return Unknown(_NO_STEPS, None) if not now_s else float(size) / now_s


def _of_window(diagnosis: Diagnosis | None, name: str, why: str) -> Fact:
    told = next((fact for fact in diagnosis.facts if fact.name == name), None) if diagnosis is not None else None
    if told is None:
        return Fact(name, Unknown(why, None), "share")
    return Fact(name, Unknown(told.because, None) if told.value is None else told.value, told.unit, told.of)


def _mfu(diagnosis: Diagnosis | None, why: str) -> Fact:
    known = diagnosis.mfu.of_own_peak if diagnosis is not None else None
    reason = diagnosis.mfu.reason if diagnosis is not None else why
    return Fact("mfu", Unknown(reason, None) if known is None else known, "share", f"peak FLOP/s times {STEP}")
