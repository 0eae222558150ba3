"""The whole analysis: from a file or folder to a Diagnosis."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from diagnose import series
from diagnose.analysis.options import Options
from diagnose.analysis.phase import waiting_told
from diagnose.analysis.ranks import analyze_ranks, comparable, representatives, weights
from diagnose.analysis.second import Second, second_of
from diagnose.analysis.windows import own_report, window_reports
from diagnose.diagnosis import Diagnosis, HistoryChange, LaterStall, WindowReport
from diagnose.errors import WrongUsage, shown_path
from diagnose.judge.case import Case
from diagnose.judge.judge import diagnose
from diagnose.judge.sections import Sections
from diagnose.metrics import Measured, measure, merged, units
from diagnose.metrics.distorted import undistorted
from diagnose.patch.refusals import Standing
from diagnose.ranks import Job, join
from diagnose.ranks.stragglers.straggler_report import with_missing_straggler
from diagnose.rule import load_rules
from diagnose.rule.bound import bound
from diagnose.series.places import may_hold_series
from diagnose.trace import find_run, on_this_machine

if TYPE_CHECKING:
    from diagnose.series import Series


class Examined(msgspec.Struct, frozen=True):
    """A diagnosis, and the ranks it was measured on."""

    diagnosis: Diagnosis
    measured: Sequence[Measured]


@contextlib.contextmanager
def examined(path: str | Path, options: Options | None = None) -> Iterator[Examined]:
    """The diagnosis of the job at `path`, as `analyze` gives it, and the measured ranks while their files exist.

    Raises:
        UserError: the input or a rule cannot be used.
    """
    with on_this_machine(path) as place:
        whole = _examined(place.path, options or Options())
        trace = whole.diagnosis.trace
        windows = whole.diagnosis.windows
        listed = trace.files, trace.copies, trace.unreadable, *(window.files for window in windows)
        files, copies, unreadable, *of_windows = (tuple(shown_path(place.shown(f)) for f in names) for names in listed)
        trace = replace(trace, files=files, copies=copies, unreadable=unreadable)
        windows = tuple(replace(window, files=files) for window, files in zip(windows, of_windows, strict=True))
        yield Examined(replace(whole.diagnosis, trace=trace, windows=windows), whole.measured)


def _examined(path: Path, chosen: Options) -> Examined:
    rules = load_rules(chosen.rules_dirs, units(), cache=chosen.loading.cache)
    run = find_run(path, chosen.run)
    read = analyze_ranks(run, chosen.settings, chosen.loading, chosen.scheduler)
    ranks, left_out = comparable(read.digests)
    job = with_missing_straggler(join(ranks, chosen.network_gbs))
    positions = _chosen(job, chosen.rank, path)
    measured = read.measured(job, positions, range(len(job.ranks)) if chosen.rank is None else positions)
    sections = Sections()
    second = sections.part(
        "windows", lambda: second_of(path, run, measured[0], chosen.settings, chosen.loading), Second()
    )
    if second.code is not None:
        measured = [replaced(measured[0], second=second.code), *measured[1:]]
    measured = waiting_told(measured)
    facts = undistorted(merged([measure(m) for m in measured], weights(job, measured)), job, positions)
    standing = Standing.of((digest.refused for digest in job.ranks), measured[0].record)
    binding = tuple(bound(rule, facts, standing) for rule in rules)
    diagnosis = diagnose(Case(job, measured, facts, binding, left_out, chosen.rank, second.phase))
    passed = run.copies, run.skipped, run.unreadable
    copies, skipped, unreadable = (tuple(str(file) for file in files) for files in passed)
    logged: Series | None = sections.part("history", lambda: _logged(path), None)
    history: tuple[HistoryChange, ...] = sections.part("history", lambda: _history(logged), ())
    later: tuple[LaterStall, ...] = sections.part("step_times", lambda: _later(logged, diagnosis), ())
    windows: tuple[WindowReport, ...] = sections.part(
        "windows", lambda: window_reports(run, measured[0], chosen.settings, chosen.loading), ()
    )
    if second.reports and not windows:
        windows = (own_report(run, measured[0]), *second.reports)
    trace = replace(diagnosis.trace, copies=copies, skipped=skipped, unreadable=unreadable)
    not_judged = (*sections.failed, *diagnosis.not_judged)
    whole = replace(diagnosis, history=history, later_stalls=later, windows=windows, not_judged=not_judged, trace=trace)
    return Examined(whole, measured)


def _logged(path: Path) -> "Series | None":
    """The step times of the run, from the logs next to the traces; None if no log can be read."""
    return series.series_beside(path) if may_hold_series(path) else None


def _later(logged: "Series | None", diagnosis: Diagnosis) -> tuple[LaterStall, ...]:
    """The stalls of the run after the steps that are drawn."""
    if logged is None or diagnosis.step_times is None:
        return ()
    from diagnose.series.later import stalls_after  # most traces have no log next to them

    return stalls_after(logged, diagnosis.step_times.last_step[-1])


def _history(logged: "Series | None") -> tuple[HistoryChange, ...]:
    """Changes of the step time over the run."""
    return tuple(
        HistoryChange(
            since_step=change.since_step,
            until_step=change.until_step,
            change_share=change.change_share,
            ranks=change.ranks,
            hosts=change.hosts,
            says=change.says,
        )
        for change in (series.changes(logged) if logged is not None else ())
    )


def _chosen(job: Job, rank: int | None, path: Path) -> list[int]:
    """Positions of the ranks to measure in full."""
    if rank is None:
        return representatives(job)
    there = [digest.rank for digest in job.ranks]
    if rank not in there:
        some = ", ".join(str(number) for number in there[:8]) + (", ..." if len(there) > 8 else "")
        raise WrongUsage(f"no rank {rank}", where=path, do=f"choose one of {some}")
    return [there.index(rank)]
