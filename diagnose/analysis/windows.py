"""The windows of a run beside the one that is diagnosed: their steps, and where their time goes."""

from collections import Counter
from typing import Any

from msgspec.structs import replace

from diagnose.analysis.rank import analyses
from diagnose.attribution.attribution import Attribution
from diagnose.diagnosis import WindowReport
from diagnose.diagnosis.terms import CauseClass
from diagnose.errors import UserError, shown_path
from diagnose.metrics import Measured
from diagnose.metrics.settings import Settings
from diagnose.timeline import Timeline
from diagnose.trace import Loading, TracedRun
from diagnose.trace.beginning import utc
from diagnose.trace.runs import RankFile, TracedWindow, processes
from diagnose.trace.vocabulary import STEP_MARKS

MOST_READ = 8
MOST_BYTES = 1 << 30
NOT_READ = "not read: the report reads the latest windows alone, and with a limit on memory its own"


def window_reports(
    run: TracedRun, measured: Measured, settings: Settings, loading: Loading
) -> tuple[WindowReport, ...]:
    """All windows of the run in order of time; empty if there is one.

    Args:
        run: the files, of which those of the chosen window are diagnosed.
        measured: the rank of the chosen window that the others are compared with.
        settings: what the user states of the job; a step that is chosen by number is that of the one window.
        loading: how traces are loaded.
    """
    room, reports = MOST_BYTES if loading.memory_bytes is None else 0, list[WindowReport]()
    for window in reversed(run.windows):
        if window.files == run.files:
            reports.append(told(window, measured.timeline, measured.attribution, is_reported=True))
            continue
        file = next((file for file in window.files if file.rank in (measured.timeline.rank, None)), window.files[0])
        room -= file.path.stat().st_size
        is_read = room >= 0 and len(reports) < MOST_READ
        reports.append(_read(window, file, replace(settings, step=None), loading) if is_read else _unread(window))
    return tuple(reversed(reports))


def own_report(run: TracedRun, measured: Measured) -> WindowReport:
    """The report of the window that is diagnosed, of a run that has no other of its kind."""
    return told(TracedWindow("", run.files), measured.timeline, measured.attribution, is_reported=True)


def _read(window: TracedWindow, file: RankFile, settings: Settings, loading: Loading) -> WindowReport:
    try:
        for each in analyses([(file.path, file.rank or 0)], settings, loading):
            return told(window, each.timeline, each.attribution)
    except UserError as error:
        return _unread(window, f"not read: {error.what}")
    return _unread(window, "the trace is empty")


def _unread(window: TracedWindow, because: str = NOT_READ) -> WindowReport:
    return WindowReport(name=window.name, is_reported=False, because=because, **_about(window))


def told(window: TracedWindow, timeline: Timeline, attribution: Attribution, is_reported: bool = False) -> WindowReport:
    """The report of a window that was read: its steps, and what of their time each class takes."""
    steps, of_class = len(attribution.windows), Counter[CauseClass]()
    for class_, ns in zip(attribution.classes, attribution.ns().values(), strict=True):
        of_class[class_] += ns
    return WindowReport(
        name=window.name,
        is_reported=is_reported,
        rank=timeline.rank,
        numbers=timeline.steps.numbers if timeline.steps.source in STEP_MARKS else (),
        steps=steps,
        step_ns=attribution.total_ns / steps if steps else None,
        class_ns={class_: ns / steps for class_, ns in of_class.items()} if steps else {},
        because="" if steps else "no steps are counted in it",
        **_about(window),
    )


def _about(window: TracedWindow) -> dict[str, Any]:
    began = min((file.by.ns for file in window.files if file.by.ns), default=0)
    files = tuple(shown_path(file.path) for file in window.files)
    return {"process": processes(window.files), "began": utc(began), "files": files, "is_cut": window.is_cut}
