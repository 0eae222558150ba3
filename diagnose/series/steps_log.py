"""Logs of steps as tables: CSV, JSON lines, and the `log_history` of transformers' trainer_state.json."""

import csv
import json
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from diagnose.decoding import encodable, finite
from diagnose.errors import UserError, WrongUsage, printable
from diagnose.series.columns import LogColumn, Stated, columns, fits
from diagnose.series.lines import lines_of
from diagnose.series.log_events import MOST_EVENTS, event
from diagnose.series.row_labels import RowEvents, RunLabels
from diagnose.series.tracks import LogEvent
from diagnose.trace.source import opened

MOST_ROWS = 2_000_000
LARGEST_STATE = 256 << 20
_NAN = float("nan")
_LARGEST = 4e18  # nanoseconds since 1970 are 1.8e18
_NUMERIC = ("step", "duration", "rate", "time", "clock", "rank", "compute", "wait", "data", "batch", "gpus")
_DO = (
    "say which they are, --step-column NAME --time-column NAME, or name a column step and one of step_time_s,"
    " step_time_ms, timestamp, elapsed_s, steps_per_second"
)


class LogTable(msgspec.Struct):
    """The columns of a log with step times, shape (rows,) each; a cell that is not a number is NaN.

    Attributes:
        columns: columns by role; `values` holds their numbers, `hosts` the text of the host column. "wall" is a clock
            that includes the time of evaluations.
        name: the kind of log, "" if the names of its columns show it.
        labels: the (job, run) pairs of the rows; `label` is the index of each row's, empty if no column has them.
        events: events between the rows.
        dated: whether the clock holds dates, read as seconds since 1970.
        cut: whether the log has more rows than are read.
    """

    columns: dict[str, LogColumn]
    values: dict[str, "array[float]"] = msgspec.field(default_factory=dict)
    hosts: list[str] = msgspec.field(default_factory=list)
    name: str = ""
    labels: list[tuple[str, str]] = msgspec.field(default_factory=list)
    label: "array[int]" = msgspec.field(default_factory=lambda: array("l"))
    events: list[LogEvent] = msgspec.field(default_factory=list)
    dated: bool = False
    cut: bool = False

    def take(self, rows: Iterable[Sequence[Any]], names: Sequence[str] = ()) -> "LogTable":
        """Read `rows`, at most `MOST_ROWS`; `names` are all columns, which are searched for runs and events."""
        labelled, row_events = RunLabels(names), RowEvents(names)
        numbers = [(self.values.setdefault(r, array("d")), c.at) for r, c in self.columns.items() if r in _NUMERIC]
        host, known = self.columns.get("host"), dict[str, str]()
        for count, row in enumerate(rows):
            if count >= MOST_ROWS:
                self.cut = True
                break
            for values, at in numbers:
                values.append(_bounded(self._number(row[at] if at < len(row) else None)))
            if host is not None:
                name = encodable(str(row[host.at] or "")[:200]) if host.at < len(row) else ""
                self.hosts.append(known.setdefault(name, name))
            if labelled.places:
                self.label.append(labelled.of(row))
            if row_events.places and len(self.events) < MOST_EVENTS:
                row_events.take(row, count, self.events)
        self.labels = list(labelled.known)
        return self

    def _number(self, cell: Any) -> float:
        if not isinstance(cell, str):
            return _number(cell)
        try:
            return float(cell)
        except ValueError:
            return self._text(cell)

    def _text(self, cell: str) -> float:
        digits = re.search(r"\d+\Z", cell)  # rank and host columns may say node3 or rank5
        if not re.match(r"\s*\d{4}-\d\d-\d\d", cell):
            return float(digits[0][:15]) if digits and re.fullmatch(r"[A-Za-z_-]+\d+", cell) else _NAN
        try:
            moment = datetime.fromisoformat(cell.strip().replace(",", "."))
        except ValueError:
            return _NAN
        self.dated = True
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def read_csv(path: Path, stated: Stated) -> LogTable:
    """The table of a CSV file with a header; comma, semicolon or tab.

    Raises:
        UserError: it cannot be read, or has no columns of steps and times.
    """
    lines = lines_of(path)
    header = next(lines, "").removeprefix("\ufeff")
    delimiter = max(",;\t", key=header.count)
    try:
        names = next(csv.reader([header], delimiter=delimiter), [])
    except csv.Error as error:
        raise UserError("no log of steps", where=path, why=str(error), do=_DO) from error
    used = _fitting(path, names, stated)
    rows: Iterator[list[str]] = csv.reader(lines, delimiter=delimiter)
    if delimiter == ";":
        rows = ([cell.replace(",", ".") for cell in row] for row in rows)
    try:
        return LogTable(used).take(rows, names[:2000])
    except csv.Error as error:
        raise UserError("cannot read the log", where=path, why=str(error)) from error


def read_jsonl(path: Path, stated: Stated) -> LogTable:
    """The table of a file with one JSON object in each line; lines that are none are passed over.

    Raises:
        UserError: as `read_csv`.
    """
    first = [row for _, row in zip(range(200), _objects(path), strict=False)]
    names = list(dict.fromkeys(key for row in first for key in row))
    used = _fitting(path, names, stated)
    return LogTable(used).take(([row.get(name) for name in names] for row in _objects(path)), names[:2000])


def read_state(path: Path) -> list[dict[str, Any]]:
    """The `log_history` of a trainer_state.json; the [seconds, step, value] of a TensorBoard export as entries.

    Raises:
        UserError: it cannot be read, or has no such list.
    """
    try:
        if path.stat().st_size > LARGEST_STATE:
            raise UserError("the trainer state is too large", where=path, why=f"over {LARGEST_STATE >> 20} MiB")
        with opened(path, "the trainer state") as file:
            state = json.loads(file.read().decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError("cannot read the trainer state", where=path, why=_why(error)) from error
    if isinstance(state, list):
        history: Any = [
            {"wall_time": one[0], "step": one[1]}
            for one in state[:MOST_ROWS]
            if isinstance(one, list) and len(one) == 3
        ]
    else:
        history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        raise UserError("no log_history in the file", where=path, do="name a trainer_state.json of transformers")
    return [entry for entry in history[:MOST_ROWS] if isinstance(entry, dict)]


def state_table(history: list[dict[str, Any]]) -> LogTable | None:
    """The log entries with their times; None when they have none.

    transformers writes `train_runtime`, the seconds since training began, into each entry only with
    `include_num_input_tokens_seen`. The time of evaluations between entries is taken off.
    """
    names = list(dict.fromkeys(key for entry in history for key in entry if "train_loss" not in entry))
    used = columns(names)
    if not fits(used):
        return None
    clock, paused, rows, wall, events = used.get("clock"), 0.0, list[Any](), array("d"), list[LogEvent]()
    for entry in history:
        if "eval_runtime" in entry:
            paused += max(finite(entry["eval_runtime"], 0, _LARGEST) or 0.0, 0.0)
            events.append(event("evaluation", f"evaluated for {entry['eval_runtime']} s", len(rows)))
        elif "train_loss" not in entry:
            row = [entry.get(name) for name in names]
            if clock is not None and clock.name == "train_runtime":
                wall.append(_number(row[clock.at]))
                row[clock.at] = wall[-1] - paused
            rows.append(row)
    table = LogTable(used).take(rows, [name if name == "epoch" else "" for name in names])
    table.events = sorted([*table.events, *events[:MOST_EVENTS]], key=lambda one: one.row)
    if len(wall) == len(rows):
        table.values["wall"] = wall
    return table


def _fitting(path: Path, names: Sequence[str], stated: Stated) -> dict[str, LogColumn]:
    listed = ", ".join(printable(name)[:40] for name in names[:20]) or "none"
    try:
        used = columns([name[:200] for name in names[:2000]], stated)
    except ValueError as error:
        raise WrongUsage(str(error), where=path, why=f"columns: {listed}", do=_DO) from error
    if not fits(used):
        raise UserError("no columns of steps and their times in the log", where=path, why=f"columns: {listed}", do=_DO)
    return used


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    for line in lines_of(path):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry


def _bounded(number: float) -> float:
    return number if abs(number) <= _LARGEST else _NAN


def _number(cell: object) -> float:
    if not isinstance(cell, int | float) or isinstance(cell, bool):
        return _NAN
    try:
        return float(cell)
    except OverflowError:
        return _NAN


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
