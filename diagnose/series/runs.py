"""Split a table into its runs: the tracks of each, and its rows as they were logged."""

import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Floats, Ints, Mask
from diagnose.errors import UserError
from diagnose.series.corrections import Corrections
from diagnose.series.ordering import TimeReading, reading_of, tracks_of
from diagnose.series.row_labels import SEPARATOR
from diagnose.series.steps_log import LogTable
from diagnose.series.tracks import LoggedRun, LoggedSteps, Track

MOST_RUNS = 1000
_MOSTLY = 0.99


def runs_of(
    table: LogTable, unit: str | None = None, rank: int | None = None
) -> tuple[list[Track], list[LoggedRun], str, Corrections]:
    """The tracks and the runs of a table, how its times were read, and what was set right; arguments as `tracks_of`.

    Raises:
        UserError: more runs, or more ranks, than are read.
    """
    read = reading_of(table, unit)
    if len(table.labels) > MOST_RUNS:
        raise UserError("too many runs in the log", why=f"{len(table.labels):,} different runs")
    tracks, runs, corrections = list[Track](), list[LoggedRun](), Corrections()
    for at, (job, name) in enumerate(_names(table.labels) or [("", "")]):
        rows = np.asarray(table.label, np.int64) == at if len(table.label) else np.ones(len(table.values["step"]), bool)
        here = Corrections()
        of_run = tracks_of(table, read, here, rank, rows)
        corrections = corrections.joined(here)
        per_step = _counts_per_step(table, rows)
        by_clock = read.kind == "clock"
        tracks += [replace(track, run=name, by_clock=by_clock).counting(per_step) for track in of_run]
        events = tuple(table.events) if len(table.labels) < 2 else ()
        runs.append(LoggedRun(name, job, _gpus(table, rows, len(of_run)), _log(table, read, rows), events))
    return tracks, runs, read.says, corrections


def _names(labels: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """(job, run) as shown: without cells that all share, and for a run the shortest cell that identifies it."""
    if len(labels) < 2:
        return [("", "")] * len(labels)
    jobs = _telling([job.split(SEPARATOR) for job, _ in labels])
    columns = list(zip(*(run.split(SEPARATOR) for _, run in labels), strict=True))
    alone = [column for column in columns if len(set(zip(jobs, column, strict=True))) == len(labels)]
    if alone:
        runs = list(min(alone, key=lambda column: max(map(len, column))))
    else:
        runs = [run.replace(SEPARATOR, " ") for _, run in labels]
    several = len(set(jobs)) > 1
    return [(job, f"{job} {run}".strip() if several else run or job) for job, run in zip(jobs, runs, strict=True)]


def _telling(cells: list[list[str]]) -> list[str]:
    same = [len(set(column)) == 1 for column in zip(*cells, strict=True)]
    return [" ".join(cell for cell, alike in zip(one, same, strict=True) if not alike) for one in cells]


def _counts_per_step(table: LogTable, rows: Mask) -> float:
    """The global batch size if the log counts samples (all its counts are whole batches, one apart), else 1."""
    if "batch" not in table.values:
        return 1.0
    batch, step = np.asarray(table.values["batch"])[rows], np.asarray(table.values["step"])[rows]
    known = np.isfinite(batch) & np.isfinite(step)
    if not known.any() or not (size := float(np.median(batch[known]))) > 1:
        return 1.0
    step = np.unique(step[known])
    whole = np.mean(step % size == 0) >= _MOSTLY
    return size if len(step) > 1 and whole and float(np.median(np.diff(step))) == size else 1.0


def _gpus(table: LogTable, rows: Mask, tracks: int) -> int | None:
    """The GPUs of the run: as the log states, else its ranks if it has several."""
    stated = np.asarray(table.values.get("gpus", ()), np.float64)
    stated = stated[rows] if len(stated) else stated
    stated = stated[np.isfinite(stated) & (stated >= 1) & (stated < 1e7)]
    if len(stated):
        return round(float(np.median(stated)))
    return tracks if tracks > 1 else None


def _log(table: LogTable, read: TimeReading, rows: Mask) -> LoggedSteps | None:
    """The rows of the run's first rank, if they have a clock."""
    clock = _clock(table, read)
    if clock is None:
        return None
    step = np.asarray(table.values["step"], np.float64)
    chosen = rows & np.isfinite(step) & np.isfinite(clock)
    ranks = np.asarray(table.values.get("rank", ()), np.float64)
    if len(ranks):
        chosen &= ranks == np.min(ranks[chosen], initial=np.inf)
    at: Ints = np.flatnonzero(chosen)
    duration = np.full(len(step), np.nan)
    if "wall" not in table.values and read.kind != "clock":
        with np.errstate(divide="ignore"):
            duration = 1 / read.seconds if read.kind == "rate" else read.seconds
        duration[~(np.isfinite(duration) & (duration > 0) & (duration < 1e9))] = np.nan
    return LoggedSteps(at, step[at], clock[at], duration[at]) if len(at) else None


def _clock(table: LogTable, read: TimeReading) -> Floats | None:
    if "wall" in table.values:
        return np.asarray(table.values["wall"], np.float64)
    if read.kind == "clock":
        return read.seconds
    return read.clock_s
