"""Several traces of one run: the steps of every window, by the numbers of their ProfilerStep."""

from pathlib import Path

import numpy as np

from diagnose.errors import shown_path
from diagnose.facts import Unknown, another_run
from diagnose.series.ordering import missing_ranks
from diagnose.series.tracks import Series, Track
from diagnose.timeline import Timeline, timeline_of
from diagnose.trace import Loading, load_all
from diagnose.trace.discover import trace_files
from diagnose.trace.runs import RankFile
from diagnose.trace.vocabulary import STEP_MARKS

_NEXT = another_run(
    "record windows in one process (schedule(..., repeat=0)) so that ProfilerStep counts on, or log step times"
)


def windows(folder: Path) -> Series | None:
    """The step times in the traces of the folder; None when it holds none.

    Raises:
        UserError: a trace cannot be read.
    """
    rank_files = trace_files(folder)
    if not rank_files:
        return None
    files = tuple(shown_path(one.path) for one in rank_files)
    note = "steps of profiled windows: the profiler slows them, all alike"
    lines = [
        timeline_of(trace, one.rank or 0)
        for one, trace in zip(rank_files, load_all([f.path for f in rank_files], _how()), strict=True)
    ]
    numbered = [line.steps.source in STEP_MARKS for line in lines]
    if not all(numbered) or not _counts_on(rank_files, lines):
        because = "the steps of the windows have no numbers that tell their order"
        return Series("windows", files, "", (), (), (note,), Unknown(because, _NEXT))
    ranks = sorted({line.rank for line in lines})
    tracks = tuple(_track(rank, lines) for rank in ranks)
    unit = "step windows of the traces, " + ("on the device" if all(line.has_gpu for line in lines) else "on the host")
    return Series("windows", files, unit, tracks, (), (note, *missing_ranks(tracks)))


def _how() -> Loading:
    return Loading(cache=True, jobs=None)


def _counts_on(rank_files: list[RankFile], lines: list[Timeline]) -> bool:
    """Whether no step number comes twice in the windows of a rank."""
    seen = [(line.rank, number) for line in lines for number in line.steps.numbers]
    return len(seen) == len(set(seen))


def _track(rank: int, lines: list[Timeline]) -> Track:
    lines_of_rank = [(at, line) for at, line in enumerate(lines) if line.rank == rank]
    step = np.concatenate([np.array(line.steps.numbers, np.int64) for _, line in lines_of_rank])
    seconds = np.concatenate([(line.windows[:, 1] - line.windows[:, 0]) / 1e9 for _, line in lines_of_rank])
    files = np.concatenate([np.full(len(line.steps.numbers), at, np.int64) for at, line in lines_of_rank])
    order = np.argsort(step, kind="stable")
    good = order[seconds[order] > 0]
    return Track(rank, "", step[good], seconds[good], files=files[good])
