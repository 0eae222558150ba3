"""Text logs of training as tables: lines of steps by their forms, MLPerf's `:::MLLOG`, and what stands between them."""

import json
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from diagnose.decoding import finite
from diagnose.errors import UserError
from diagnose.series.columns import UNITS_S, LogColumn
from diagnose.series.lines import lines_of
from diagnose.series.log_events import MOST_EVENTS, event, kind_of
from diagnose.series.log_formats import BATCH, FORMATS, WORLD, clock_of, plain_line, rank_of
from diagnose.series.steps_log import MOST_ROWS, LogTable
from diagnose.series.tracks import LogEvent

LONGEST = 4096  # characters of a line that are looked at
_MLLOG = ":::MLLOG"
_NAN = float("nan")
_LARGEST = 1e15
_CLOCK = (
    "log with a clock, such as %(asctime)s of Python's logging, or pipe the output through: ts '%Y-%m-%d %H:%M:%.S'"
)
_MOSTLY = 0.9
_STARTS = {"eval_start": "evaluation", "eval_stop": "evaluation", "epoch_start": "epoch", "epoch_stop": "epoch"}


class _Row(NamedTuple):
    form: float
    step: float
    seconds: float
    clock: float
    dated: float
    rank: float


@dataclass
class _Read:
    """The lines read so far; events count the rows of all forms before them."""

    rows: "array[float]" = field(default_factory=lambda: array("d"))  # of each row its six numbers
    events: list[LogEvent] = field(default_factory=list)
    batch: float = _NAN
    gpus: float = _NAN
    cut: bool = False

    @property
    def count(self) -> int:
        """The rows."""
        return len(self.rows) // len(_Row._fields)


def read_text(path: Path) -> LogTable:
    """Read a text log of training into a table.

    Columns are `step`, `duration` if the lines state the time of a step, `clock` if they begin with one, and `rank`;
    `batch` and `gpus` are constants. Lines are cut to 4,096 characters.

    Raises:
        UserError: it cannot be read, or no line has a step.
    """
    read = _Read()
    for line in lines_of(path, LONGEST):
        if read.count >= MOST_ROWS:
            read.cut = True
            break
        line = plain_line(line)
        if _MLLOG in line:
            _mllog(line, read)
        elif (row := _row(line)) is not None:
            read.rows.extend(row)
            _constants(line, read)
        else:
            _other(line, read)
    if not read.rows:
        forms = ", ".join(dict.fromkeys(one.name for one in FORMATS))
        raise UserError(
            "no line of the log has a step",
            where=path,
            why=f"known are {forms} and :::MLLOG",
            do="name another log; a Trainer of transformers writes its steps to trainer_state.json in each checkpoint",
        )
    return _table(read, path)


def _row(line: str) -> _Row | None:
    low = line.lower()
    for at, form in enumerate(FORMATS):
        if not all(mark in low for mark in form.marks) or (found := form.step.search(line)) is None:
            continue
        timed = form.duration.search(line) if form.duration is not None else None
        if timed is None and form.duration is not None and kind_of(line) in ("checkpoint", "evaluation"):
            return None  # "validation loss at iteration 100" has a step and a loss, too
        unit = (timed[2] if timed is not None and form.duration and form.duration.groups > 1 else None) or form.unit
        clock = clock_of(line)
        rank = rank_of(line)
        return _Row(
            at,
            _finite(found[1]),
            _finite(timed[1]) * UNITS_S[unit] if timed is not None else _NAN,
            _NAN if clock is None else clock[0],
            clock is not None and clock[1],
            _NAN if rank is None else rank,
        )
    return None


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) < _LARGEST else _NAN


def _constants(line: str, read: _Read) -> None:
    if read.batch != read.batch and (found := BATCH.search(line)) is not None:
        read.batch = float(found[1])


def _other(line: str, read: _Read) -> None:
    if read.gpus != read.gpus and (found := WORLD.search(line)) is not None:
        read.gpus = float(found[1])
    _constants(line, read)
    kind = kind_of(line)
    if kind is not None and len(read.events) < MOST_EVENTS:
        clock = clock_of(line)
        read.events.append(event(kind, line, read.count, clock[0] if clock is not None and clock[1] else None))


def _mllog(line: str, read: _Read) -> None:
    """A line of MLPerf's log: `tracked_stats` with a step time is a row, evaluations and epochs are events."""
    try:
        entry: Any = json.loads(line[line.index(_MLLOG) + len(_MLLOG) :])
    except (ValueError, RecursionError):
        return
    if not isinstance(entry, dict):
        return
    key, value, about = entry.get("key"), entry.get("value"), entry.get("metadata")
    milliseconds = finite(entry.get("time_ms"), 0, 4e15)
    clock = _NAN if milliseconds is None else milliseconds / 1000
    if key == "global_batch_size":
        read.batch = finite(value, 1, 1e12) or _NAN
    elif key == "tracked_stats" and isinstance(value, dict) and isinstance(about, dict):
        seconds = next((value[name] for name in ("train_step_time", "step_time") if name in value), None)
        step = next((about[name] for name in ("step", "samples_count") if name in about), None)
        if step is not None and seconds is not None:
            took = finite(seconds, 0, 1e9)
            number = finite(step, 0, _LARGEST)
            if took is not None and number is not None:
                read.rows.extend(_Row(-1, number, took, clock, True, _NAN))
    elif isinstance(key, str) and len(read.events) < MOST_EVENTS:
        kind = _STARTS.get(key) or ("checkpoint" if "checkpoint" in key.lower() else None)
        if kind is not None:
            read.events.append(event(kind, key, read.count, None if clock != clock else clock))


def _table(read: _Read, path: Path) -> LogTable:
    """The rows of the form that has most of them; of forms that have half as many, one that states times."""
    rows = np.asarray(read.rows).reshape(-1, len(_Row._fields))
    forms = Counter(rows[:, 0].tolist())
    timed = Counter(rows[np.isfinite(rows[:, 2]), 0].tolist())
    most = max(forms.values())
    form = max(forms, key=lambda one: (2 * forms[one] >= most, timed[one], forms[one]))
    kept = np.flatnonzero(rows[:, 0] == form)
    _, step, seconds, clock, dated, rank = rows[kept].T
    name = "MLPerf's log" if form < 0 else FORMATS[int(form)].name
    table = LogTable({"step": LogColumn(0, "step", "step")}, name=name, cut=read.cut)
    table.values["step"] = array("d", step)
    for role, known in (("duration", seconds), ("clock", clock), ("rank", rank)):
        if np.isfinite(known).sum() >= _MOSTLY * len(kept):
            words = "step times" if role == "duration" else role
            unit = "" if role == "rank" else "s"
            table.columns[role] = LogColumn(len(table.columns), f"{words} in lines of {name}", role, unit)
            table.values[role] = array("d", known)
    for role, value in (("batch", read.batch), ("gpus", read.gpus)):
        if value == value:
            table.values[role] = array("d", [value]) * len(kept)
    if len(table.columns.keys() & {"duration", "clock"}) == 0:
        raise UserError("the lines with steps have no times", where=path, why=f"they are of {name}", do=_CLOCK)
    table.dated = float(dated.sum()) >= _MOSTLY * len(kept)
    before = np.searchsorted(kept, [one.row for one in read.events])
    table.events = [replace(one, row=int(at)) for one, at in zip(read.events, before, strict=True)]
    return table
