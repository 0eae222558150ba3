"""The findings of a run: of a diagnosis, of an armed run's logs and windows, and of a job that stands still."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from diagnose.capture.standstill import Standstill
from diagnose.commands.armed.answer import ArmedRun
from diagnose.commands.armed.text import told_long
from diagnose.commands.run.answer import RunFinding
from diagnose.commands.run.hang_stacks import TIMED_OUT, told_standstill
from diagnose.diagnosis import Diagnosis
from diagnose.errors import shown_path
from diagnose.report.views.brief import brief
from diagnose.report.views.job_words import is_late, rank_and_host
from diagnose.report.views.plain import plain


def of_diagnosis(diagnosis: Diagnosis, folder: Path, window: str = "") -> Iterator[RunFinding]:
    """The verdict, and each late rank."""
    run, read = shown_path(folder), _typed("analyze", folder / window)
    do = plain(diagnosis.next.do or diagnosis.next.says)
    yield RunFinding(kind="verdict", about=window, text=brief(diagnosis), do=do, run=run, window=window)
    for late in diagnosis.stragglers:
        text = plain(f"{rank_and_host(late)} {is_late(late)}")
        about = f"rank {late.rank}"
        yield RunFinding(kind="slow-rank", about=about, text=text, do=read, run=run, window=window, rank=late.rank)


def of_armed(found: ArmedRun, folder: Path) -> Iterator[RunFinding]:
    """The findings of the logs of an armed run, and of each of its windows."""
    yield from _of_steps(found, folder)
    for grown in found.growth.grown:
        text, do = plain(grown.says), plain(grown.do)
        yield RunFinding(kind="leak", about=grown.what, text=text, do=do, run=shown_path(folder), rank=grown.rank)
    for window in found.windows:
        if window.diagnosis is not None:
            yield from of_diagnosis(window.diagnosis, folder, window.folder)


def of_standstill(stands: Standstill, folder: Path) -> RunFinding:
    """A job that stands still."""
    about = TIMED_OUT if stands.timed_out else "" if stands.step is None else f"after step {stands.step}"
    run, do = shown_path(folder), _typed("hang", folder)
    return RunFinding(kind="hang", about=about, text=told_standstill(stands), do=do, run=run, step=stands.step)


def _of_steps(found: ArmedRun, folder: Path) -> Iterator[RunFinding]:
    """Stalls, as seen while they lasted and as judged afterwards, and ranks that are late over the run."""
    run, read = shown_path(folder), _typed("analyze", folder)
    for long in found.long_steps:
        about, text = f"step {long.step}", told_long(long)
        yield RunFinding(kind="stall", about=about, text=text, do=read, run=run, rank=long.rank, step=long.step)
    for stall in found.series.stalls:
        about, text = f"step {stall.step}", plain(stall.says)
        yield RunFinding(kind="stall", about=about, text=text, do=read, run=run, step=stall.step)
    for change in found.series.changes:
        for rank in change.culprit_ranks:
            text = plain(change.says)
            yield RunFinding(kind="slow-rank", about=f"rank {rank}", text=text, do=read, run=run, rank=rank)


def _typed(command: str, folder: Path) -> str:
    return f"diagnose {command} {shlex.quote(shown_path(folder))}"
