"""The second windows of a plain run: one on a step that comes again and again, one with stacks.

Each lies in a folder of its own below that of the run. All times are those of the first window. These add the causes of
a slow step beyond the usual one, and lines of code that samples do not show.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace as with_fields

from diagnose.analysis.rank import RankAnalysis, analyses, as_python
from diagnose.analysis.windows import told
from diagnose.diagnosis import WindowReport
from diagnose.errors import UserError, pass_over, shown_path
from diagnose.judge.case import RecordedPhase
from diagnose.metrics import Measured
from diagnose.metrics.lines.recorded import recorded
from diagnose.metrics.lines.user_code import ThreadWork
from diagnose.metrics.settings import Settings
from diagnose.series.phase import SlowPhase
from diagnose.series.places import is_window, step_logs
from diagnose.trace import Loading, TracedRun
from diagnose.trace.discover import runs_in
from diagnose.trace.record import CaptureRecord, record_beside
from diagnose.trace.runs import TracedWindow

MOST = 2


class Second(msgspec.Struct, frozen=True):
    """The second windows as reports, and their part in the diagnosis of the first."""

    reports: tuple[WindowReport, ...] = ()
    code: ThreadWork | None = None
    phase: RecordedPhase | None = None


def second_of(path: Path, run: TracedRun, measured: Measured, settings: Settings, loading: Loading) -> Second:
    """Read the second windows of the run at `path`, for the first of its measured ranks."""
    reading = _Reading(run, measured, with_fields(settings, step=None, step_range=None), loading)
    read = [window for folder in _folders(path, run) if (window := reading.of_folder(folder)) is not None]
    deep = next((each for each in read if each.has_stacks), None)
    return Second(
        tuple(each.report for each in read),
        _code(deep.analysis) if deep is not None else None,
        reading.phase(read) if settings.step is None else None,
    )


def _folders(path: Path, run: TracedRun) -> list[Path]:
    """The folders of second windows; an armed run has windows too, which are diagnosed each by itself."""
    beside = {file.path.parent for file in run.files}
    if not path.is_dir() or beside != {path} or step_logs(path):
        return []
    return sorted(each for each in path.iterdir() if each.is_dir() and is_window(each.name))[:MOST]


class _Window(msgspec.Struct, frozen=True):
    """A window that was read: the name of its folder, "" if it is that of the diagnosis, and its slow step if it is
    about one.
    """

    name: str
    analysis: RankAnalysis
    slow_step: int | None = None

    @property
    def has_stacks(self) -> bool:
        """Whether calls of Python were recorded."""
        return _has_stacks(self.analysis.record)

    @property
    def report(self) -> WindowReport:
        """The window in the words of the diagnosis."""
        timeline = self.analysis.timeline
        report = told(TracedWindow(self.name, ()), timeline, self.analysis.attribution)
        holds = "stacks" if self.has_stacks else "slow step"
        return with_fields(report, holds=holds, files=(shown_path(Path(timeline.trace.path)),))


class _Reading(msgspec.Struct, frozen=True):
    """Reads the windows of one rank."""

    run: TracedRun
    measured: Measured
    settings: Settings
    loading: Loading

    def of_folder(self, folder: Path) -> _Window | None:
        """The window in the folder: of one without stacks the slow step alone. None if it cannot be read."""
        rank = self.measured.timeline.rank
        try:
            files = [file.path for run in runs_in(folder) for file in run.files if file.rank == rank]
            record = record_beside(files[0], rank) if files else CaptureRecord()
            slow = None if _has_stacks(record) else self._slow_step(record)
            return self._read(folder.name, files[0], slow) if files else None
        except UserError as error:
            pass_over(error)
            return None

    def phase(self, read: Iterable[_Window]) -> RecordedPhase | None:
        """The slow step of the first window that has one: of that which is diagnosed, then of the second ones."""
        windows = (self._itself(), *read)
        return next((phase for each in windows if each is not None if (phase := self._beyond(each))), None)

    def _itself(self) -> _Window | None:
        """The slow step of the window that is diagnosed, which leaves it out of the counted ones; None without one."""
        rank = self.measured.timeline.rank
        file = next((file.path for file in self.run.files if file.rank in (rank, None)), None)
        slow = self._slow_step(self.measured.record)
        if file is None or slow is None:
            return None
        try:
            return self._read("", file, slow)
        except UserError as error:
            pass_over(error)
            return None

    def _read(self, name: str, file: Path, slow: int | None) -> _Window | None:
        settings, rank = with_fields(self.settings, step=slow), self.measured.timeline.rank
        analysis = next(analyses([(file, rank)], settings, self.loading), None)
        if analysis is not None and slow is not None and isinstance(self.measured.user_code.slow, ThreadWork):
            analysis = as_python(analysis)
        return None if analysis is None else _Window(name, analysis, slow)

    def _beyond(self, window: _Window) -> RecordedPhase | None:
        """The causes of the window's slow step beyond the usual step; None without one, or if it takes no longer."""
        if window.slow_step is None:
            return None
        usual = {cause: self.measured.timeline.steps.each(ns) for cause, ns in self.measured.cause_ns.items()}
        more = {cause: ns - usual.get(cause, 0.0) for cause, ns in window.analysis.attribution.ns().items()}
        longer = {cause: ns for cause, ns in more.items() if ns > 0}
        shares = {cause: ns / sum(longer.values()) for cause, ns in longer.items()}
        return RecordedPhase(window.slow_step, window.name, shares) if shares else None

    def _slow_step(self, record: CaptureRecord) -> int | None:
        """The first step of the phase among those that a window with this record counts."""
        phase = self.measured.slow_phase
        return next(filter(phase.holds, _counted(record)), None) if isinstance(phase, SlowPhase) else None


def _has_stacks(record: CaptureRecord) -> bool:
    return record.flag("profiler.with_stack") is True


def _counted(record: CaptureRecord) -> list[int]:
    """The steps that a window of ours counts: all that it recorded but the first of several."""
    first, times = record.number("steps.first_active_step"), record.get("steps.active_ns") or ()
    return [] if first is None else [int(first) + at for at in range(1 if len(times) > 2 else 0, len(times))]


def _code(analysis: RankAnalysis) -> ThreadWork | None:
    """The calls that the window recorded, of the steps that it counts."""
    code, numbers = recorded(analysis.timeline), analysis.timeline.steps.numbers
    if not isinstance(code, ThreadWork) or not numbers:
        return None
    return with_fields(code, of=f"the Python time of steps {numbers[0]} to {numbers[-1]}, recorded with stacks")
