"""Turn a table into tracks: rows by rank, in the order of their steps, with resumed and repeated steps taken once."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from diagnose.arrays import Floats, Ints, Mask
from diagnose.errors import UserError
from diagnose.series.columns import LOG_CALLS, PARTS, UNIT_NAMES, UNITS_S, LogColumn, timed
from diagnose.series.corrections import Corrections
from diagnose.series.steps_log import MOST_ROWS, LogTable
from diagnose.series.tracks import Track

MOST_TRACKS = 16_384
_MOST_JUMPS = 0.02  # of the rows: more steps back than that are rows out of order, not restarts
_MOST_STRAYS = 0.1  # of the rows: a summary of the steps before, under a count of its own
_ONCE = 0.6  # of the rows have a step of their own: the others are repetitions, not other ranks
_LEAST_RISES = 3  # of a clock; times of steps that slow down once or twice rise as often
_MOST_FALLS = 0.1  # of the rises: restarts
_ROW = "row"  # goes with the samples like their parts
_TICKS = 20  # of the clock, that a sample is long


class TimeReading(msgspec.Struct, frozen=True):
    """The interpretation of a table's times.

    Attributes:
        kind: "duration", "rate" or "clock".
        seconds: the values in seconds, shape (rows,); a rate is in steps per second.
        says: a description of both.
        unit: the user's unit for times whose column states none.
        clock_s: a clock in addition to durations or rates, in seconds, if the table has one.
    """

    kind: str
    seconds: Floats
    says: str
    unit: str | None
    clock_s: Floats | None


def reading_of(table: LogTable, unit: str | None = None) -> TimeReading:
    """Interpret the times of the table; `unit` is that of a column whose name states none."""
    chosen = timed(table.columns)
    assert chosen is not None
    kind, factor, says = _reading(table, chosen, unit)
    clock = None
    if kind != "clock" and "clock" in table.columns:
        values = np.asarray(table.values["clock"], np.float64)
        clock = values * UNITS_S[table.columns["clock"].unit or ("s" if table.dated else _size_of_clock(values))]
    return TimeReading(kind, np.asarray(table.values[chosen.role], np.float64) * factor, says, unit, clock)


def takes_unit(table: LogTable) -> bool:
    """Whether a unit that the user states applies to any of the table's times."""
    chosen = timed(table.columns)
    times = [table.columns[role] for role in PARTS if role in table.columns]
    if chosen is not None and chosen.role != "rate" and not table.dated:
        times.append(chosen)
    return any(not column.unit for column in times)


def tracks_of(
    table: LogTable, read: TimeReading, told: Corrections, rank: int | None, of_run: Mask
) -> tuple[Track, ...]:
    """Return the tracks of a run; corrections are added to `told`.

    Args:
        table: the rows.
        read: the interpretation of their times.
        told: the corrections so far.
        rank: the rank of the whole table, if its file is named after one.
        of_run: mask of the rows that belong to the run, shape (rows,).

    Raises:
        UserError: more ranks than a job has.
    """
    step = np.asarray(table.values["step"], np.float64)
    usable = np.isfinite(step) & (np.abs(step) < 1e15)
    told.unusable += int(np.sum(of_run & ~usable))
    kind, value = read.kind, read.seconds
    parts = {
        role: np.asarray(table.values[role], np.float64) * _factor(table.columns[role], read.unit)
        for role in PARTS
        if role in table.columns
    }
    parts[_ROW] = np.arange(len(step), dtype=np.float64)
    tracks = []
    for rows, number, host in _by_rank(table, usable & of_run, rank):
        whole = np.rint(step[rows]).astype(np.int64)
        merge = number is None and kind != "clock"
        track = _track(whole, value[rows], kind, {k: v[rows] for k, v in parts.items()}, told, merge)
        row = track[3].pop(_ROW, None)
        tracks.append(Track(number, host, *track, rows=None if row is None else row.astype(np.int64)))
    kept = tuple(sorted(tracks, key=lambda t: (t.rank is None, t.rank or 0, t.host)))
    return tuple(track for track in kept if len(track))


def missing_ranks(tracks: Sequence[Track]) -> list[str]:
    """Ranks between 0 and the last that are not there, and ranks that end before the others."""
    ranks = {t.rank for t in tracks if t.rank is not None}
    told = []
    if ranks and len(ranks) > 1:
        absent = sorted(set(range(min(max(ranks) + 1, MOST_TRACKS))) - ranks)
        if absent:
            told.append(
                f"{len(absent)} ranks are not in the log: {', '.join(map(str, absent[:8]))}"
                + " ..." * (len(absent) > 8)
            )
        last = max(int(t.step[-1]) for t in tracks)
        ended = [t for t in tracks if t.step[-1] < last - max(10 * t.covers, 0.05 * (last - int(t.step[0])))]
        for track in ended[:4]:
            told.append(f"rank {track.rank} ends at step {int(track.step[-1]):,}, the others at {last:,}")
    return told


def _reading(table: LogTable, chosen: LogColumn, unit: str | None) -> tuple[str, float, str]:
    """ "duration", "rate" or "clock", the factor to seconds, and both in words."""
    values = np.asarray(table.values[chosen.role], np.float64)
    kind = chosen.role
    if kind == "time":
        kind = "clock" if table.dated or _rises(table, values) else "duration"
    if kind == "rate":
        return kind, 1.0, f"{chosen.name}: the inverse of a rate in steps per second"
    stated = chosen.unit or unit or ""
    if kind == "clock":
        stated = stated or ("s" if table.dated else _size_of_clock(values))
        return kind, UNITS_S[stated], f"{chosen.name}: differences of a clock in {UNIT_NAMES[stated]}"
    if stated:
        return kind, UNITS_S[stated], f"{chosen.name}: {UNIT_NAMES[stated]}"
    return kind, 1.0, f"{chosen.name}: read as seconds, since its name states no unit"


def _factor(column: LogColumn, unit: str | None) -> float:
    return UNITS_S[column.unit or unit or "s"]


def _size_of_clock(values: Floats) -> str:
    """The unit of a clock that counts from 1970, by its size; seconds for one that counts from the job's start."""
    size = float(np.nanmedian(np.abs(values))) if np.isfinite(values).any() else 0.0
    return "ns" if size > 1e17 else "us" if size > 1e14 else "ms" if size > 1e11 else "s"


def _rises(table: LogTable, values: Floats) -> bool:
    """Whether the values grow with the step again and again and hardly ever fall, as those of a clock do."""
    step = np.asarray(table.values["step"], np.float64)
    known = np.isfinite(step) & np.isfinite(values)
    order = np.argsort(step[known], kind="stable")
    grows = np.diff(values[known][order][:: max(len(order) // 1000, 1)])
    rises, falls = int(np.sum(grows > 0)), int(np.sum(grows < 0))
    return rises >= _LEAST_RISES and falls <= _MOST_FALLS * rises and float(np.sum(grows)) > 0


def _by_rank(table: LogTable, usable: Mask, rank: int | None) -> list[tuple[Ints, int | None, str]]:
    """(rows, rank, host) of each track: by rank if it is logged, else by host, else all rows as one."""
    hosts = np.array(table.hosts, object) if table.hosts else None
    numbers = table.values.get("rank")
    if numbers is not None and rank is None:
        values = np.asarray(numbers, np.float64)
        usable = usable & np.isfinite(values) & (values >= 0) & (values < 1e9)
        keys = np.where(usable, values, -1).astype(np.int64)
    elif hosts is not None:
        _, keys = np.unique(hosts.astype(str), return_inverse=True)
    else:
        keys = np.zeros(len(usable), np.int64)
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(keys[rows], kind="stable")]
    each = np.split(rows, np.flatnonzero(np.diff(keys[rows])) + 1) if len(rows) else []
    if len(each) > MOST_TRACKS:
        raise UserError("too many ranks in the log", why=f"{len(each):,} different ranks or hosts")
    of_ranks = []
    for of_one in each:
        host = Counter(hosts[of_one]).most_common(1)[0][0] if hosts is not None else ""
        of_ranks.append((of_one, int(keys[of_one[0]]) if numbers is not None and rank is None else rank, host))
    return of_ranks


def _track(
    step: Ints, value: Floats, kind: str, parts: dict[str, Floats], told: Corrections, merge: bool
) -> tuple[Ints, Floats, float, dict[str, Floats]]:
    """Steps in order, seconds per step, steps per sample, and the parts."""
    rows, restarts = _in_order(step, told, merge)
    attempt = np.searchsorted(restarts, rows, side="right")
    step, value, parts = step[rows], value[rows], {name: values[rows] for name, values in parts.items()}
    if kind == "clock":
        rows = _ticking(value, told)
        attempt = attempt[rows]
        step, value, parts = step[rows], value[rows], {name: values[rows] for name, values in parts.items()}
        seconds = np.full(len(step), np.nan)
        seconds[1:] = np.diff(value) / np.maximum(np.diff(step), 1)
        good = np.isfinite(seconds) & (seconds > 1e-9) & (seconds < 1e9)
        good[:1] = True  # the first row only starts the clock
        told.unusable += int(np.sum(~good))
        good[:1] = False
        good[1:] &= np.diff(attempt) == 0  # time while the job was down is not a step
    else:
        with np.errstate(divide="ignore", over="ignore"):
            seconds = 1 / value if kind == "rate" else value
        good = np.isfinite(seconds) & (seconds > 1e-9) & (seconds < 1e9)
        told.unusable += int(np.sum(~good))
    covers = float(np.median(np.diff(np.unique(step)))) if len(np.unique(step)) > 1 else 1.0
    step, seconds, parts = step[good], seconds[good], {name: values[good] for name, values in parts.items()}
    if merge and np.any(np.diff(step) == 0):
        return _merged(step, seconds, parts, told)
    return step, seconds, max(covers, 1.0), parts


def _in_order(step: Ints, told: Corrections, merge: bool) -> tuple[Ints, Ints]:
    """Rows in the order of their steps, of a step that comes again the last; and the rows at which the job resumed."""
    restarts = np.zeros(0, np.int64)
    rows = np.arange(len(step))
    back = np.diff(step) < 0
    if not back.any() and (merge or np.all(np.diff(step) > 0)):
        return rows, restarts
    strays = stray(step)
    jumps = np.diff(step[~strays]) < 0
    if max(jumps.sum(), _MOST_JUMPS / _MOST_STRAYS * strays.sum()) > max(_MOST_JUMPS * len(step), 3):
        told.sorted = True
        rows = np.argsort(step, kind="stable")
    else:
        rows = rows[~strays]
        restarts = rows[1:][np.diff(step[rows]) < 0]
        told.restarts |= set(step[restarts].tolist())
    if merge and told.sorted:
        return rows, restarts
    ordered = step[rows]
    later = np.minimum.accumulate(ordered[::-1])[::-1]
    keep = np.append(ordered[:-1] < later[1:], True) if len(ordered) else np.zeros(0, bool)
    told.repeated += len(step) - int(keep.sum())
    return rows[keep], restarts


def stray(step: Ints) -> Mask:
    """Single rows with a step far back, after which the count goes on: no restart."""
    stray = np.zeros(len(step), bool)
    if len(step) > 2:
        stray[1:-1] = (step[1:-1] < step[:-2]) & (step[2:] > step[:-2])
        stray[-1] = step[-1] < step[-2]
    return stray


def _ticking(clock: Floats, told: Corrections) -> Ints:
    """Every k-th row, if single rows are shorter than 20 ticks of a clock that often stands still."""
    rows = np.flatnonzero(np.isfinite(clock))
    apart = np.diff(clock[rows])
    moving = apart[apart > 0]
    if len(moving) < 2 or np.mean(apart == 0) < 0.05:
        return rows
    typical = float(np.sum(moving)) / len(apart)
    every = int(np.ceil(_TICKS * float(moving.min()) / typical))
    told.thinned = max(told.thinned, every)
    return rows[::every]


def _merged(
    step: Ints, seconds: Floats, parts: dict[str, Floats], told: Corrections
) -> tuple[Ints, Floats, float, dict[str, Floats]]:
    """The median of the rows of each step."""
    kept, first = np.unique(step, return_index=True)
    if len(kept) < _ONCE * len(step):
        told.merged = True
    else:
        told.repeated += len(step) - len(kept)
    order = np.argsort(step, kind="stable")
    step, seconds = step[order], seconds[order]
    kept, first = np.unique(step, return_index=True)
    middle = np.array([np.median(one) for one in np.split(seconds, first[1:])])
    covers = float(np.median(np.diff(kept))) if len(kept) > 1 else 1.0
    return kept, middle, covers, {name: parts[name][order][first] for name in (_ROW,) if name in parts}


def reservations(table: LogTable) -> list[str]:
    """A sentence for each reservation about a log: not all was read, or its steps are calls of wandb.log."""
    told = [f"only the first {MOST_ROWS:,} rows are read"] if table.cut else []
    if table.columns["step"].name.strip() == LOG_CALLS:
        told.append(
            "_step counts calls of wandb.log: each sample is the time from one to the next, whatever number of training"
            " steps that is; --step-column NAME takes the job's own count"
        )
    return told
