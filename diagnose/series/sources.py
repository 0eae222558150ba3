"""Sources of step times: a log, a trainer state, the probe's records, or several traces of one run."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from diagnose.decoding import finite
from diagnose.errors import UserError, WrongUsage, pass_over, shown_path
from diagnose.facts import Unknown, another_run
from diagnose.probes.protocol import STEP_LOG, rank_in
from diagnose.series.columns import LogColumn, Stated, writer_of
from diagnose.series.corrections import Corrections
from diagnose.series.counting import apart_notes
from diagnose.series.log_formats import PROGRAMS
from diagnose.series.not_taken import UnitNotTaken, refuse_names, refuse_unit, unit_not_taken
from diagnose.series.ordering import missing_ranks, reservations, takes_unit
from diagnose.series.places import CAPTURE_NAME, CHECKPOINT, LOGS, STATE, is_window, step_logs
from diagnose.series.runs import runs_of
from diagnose.series.steps_log import LogTable, read_csv, read_jsonl, read_state, state_table
from diagnose.series.timing_log import TimingLog, read_timing_log
from diagnose.series.tracks import ARMED, LoggedRun, Series, Track
from diagnose.timeline import Timeline, timeline_of
from diagnose.trace import Loading, load_all
from diagnose.trace.discover import trace_files
from diagnose.trace.record import record_beside, timed_steps
from diagnose.trace.runs import RankFile
from diagnose.trace.vocabulary import STEP_MARKS

_JSON_LINES = (".jsonl", ".ndjson")
_TEXT = (".txt", ".log", ".out", ".err")
_PACKED = (".gz", ".zst")
_MOST_LOGS = 4096
_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_.]?(\d{1,9})", re.IGNORECASE)
_DO = "name a CSV log, a trainer_state.json, or a folder with one of them or with traces"
_NO_TIMES = Unknown(
    "log_history has steps and no times: transformers writes them only when it counts the tokens it has seen",
    another_run(
        'train with TrainingArguments(include_num_input_tokens_seen="all"), which adds train_runtime to each entry'
    ),
)


def read_series(
    path: str | os.PathLike[str],
    unit: str | None = None,
    step_column: str | None = None,
    time_column: str | None = None,
) -> Series:
    """The step times at `path`: a file, or the folder of an armed run, of logs, a trainer state, records or traces.

    Args:
        path: the file or folder, as text or a path.
        unit: "s", "ms", "us" or "ns", for times whose column states none.
        step_column: the column of a log that counts the steps; if None, recognised by its name.
        time_column: the column of a log with their times; if None, recognised by its name.

    Raises:
        UserError: nothing there has step times, or it cannot be read.
        WrongUsage: it has no such columns, or takes no unit.
    """
    path = Path(path)
    if not path.exists():
        raise UserError("no such file or folder", where=path, do="check the path")
    stated = Stated(step_column, time_column, unit)
    if not path.is_dir():
        return _of_file(path, stated)
    if stated.names:
        return _with_named_columns(path, stated)
    if logs := step_logs(path):
        refuse_unit(stated, path)
        return _armed(logs)
    logged = series_beside(path, unit)
    if logged is not None and logged.tracks:
        return logged
    traced = windows(path)
    if traced is not None:
        refuse_unit(stated, path)
        return traced
    if logged is not None:
        return logged
    raise UserError("no step times in the folder", where=path, do=_DO)


def series_beside(path: Path, unit: str | None = None) -> Series | None:
    """The logged or recorded step times in the folder of a trace, or in the folder `path`; None when there are none.

    Reads no trace, and without a unit it never fails: what cannot be used is as good as none.

    Raises:
        WrongUsage: what is read takes no unit.
    """
    folder = path if path.is_dir() else path.parent
    for source in (_armed_beside, _logs, _states, _captures):
        try:
            series = source(folder, Stated(unit=unit))
        except UnitNotTaken:
            raise
        except (UserError, OSError) as error:
            pass_over(error)
            continue
        if series is not None:
            return series
    return None


def _armed_beside(folder: Path, stated: Stated) -> Series | None:
    """The step logs in the folder, else in that of the run of whose windows it is one."""
    paths = step_logs(folder) or (step_logs(folder.parent) if is_window(folder.name) else [])
    if paths:
        refuse_unit(stated, folder)
    return _armed(paths) if paths else None


def _armed(paths: Sequence[Path]) -> Series:
    return timing_series(paths, [read_timing_log(path) for path in paths])


def timing_series(paths: Sequence[Path], logs: Sequence[TimingLog]) -> Series:
    """All steps of an armed run but those with the profiler on: the step logs at `paths`, one for each rank."""
    series = _of_tables([(path, log.table()) for path, log in zip(paths, logs, strict=True)], None, ARMED)
    unread = sum(log.unread for log in logs)
    torn = (f"{unread} lines of the step logs could not be read: the end of one whose process was killed",)
    return replace(
        series,
        unit="step times of the armed run, by the host clock",
        tracks=tuple(
            replace(track, rank=log.rank, host=log.host) if len(series.tracks) == len(logs) else track
            for track, log in zip(series.tracks, logs, strict=False)
        ),
        notes=("steps with the profiler on are left out", *series.notes, *(torn if unread else ())),
        machines=tuple(log.machine() for log in logs),
    )


def _with_named_columns(folder: Path, stated: Stated) -> Series:
    series = _logs(folder, stated)
    if series is None:
        raise WrongUsage(
            "no log in the folder has the named columns", where=folder, why=", ".join(stated.names), do="name the log"
        )
    return series


def _of_file(path: Path, stated: Stated) -> Series:
    kind = _suffix(path)
    if rank_in(path.name, STEP_LOG) is not None:
        refuse_names(stated, path)
        refuse_unit(stated, path)
        return _armed([path])
    if kind in (".csv", ".tsv"):
        return _of_tables([(path, _table(path, stated))], stated.unit, "csv")
    if kind in _JSON_LINES:
        return _of_tables([(path, _table(path, stated))], stated.unit, "jsonl")
    if kind in _TEXT or not kind:
        return _of_text(path, stated)
    refuse_names(stated, path)
    if CAPTURE_NAME.search(path.name):
        captured = _captured([path])
        if captured is not None:
            refuse_unit(stated, path)
            return captured
        raise UserError("no step times in the capture record", where=path, do=_DO)
    if kind == ".json":
        return _of_state(path, stated)
    ends = "its name ends in none of .csv .tsv .jsonl .json .log .txt .out .err"
    raise UserError("no log of steps", where=path, why=ends, do=_DO)


def _suffix(path: Path) -> str:
    """The suffix of the name before compression, in lower case."""
    return (Path(path.stem) if path.suffix.lower() in _PACKED else path).suffix.lower()


def _of_text(path: Path, stated: Stated) -> Series:
    """A file of columns, whatever it is called, else the text log of a training loop."""
    try:
        return _of_tables([(path, _table(path, stated))], stated.unit, "csv")
    except UnitNotTaken:
        raise
    except UserError:
        if stated.names:
            raise
    refuse_unit(stated, path)
    from diagnose.series.text_log import read_text  # its many patterns take long to load

    return _of_tables([(path, read_text(path))], stated.unit, "text")


def _logs(folder: Path, stated: Stated) -> Series | None:
    """The logs in the folder that fit; those of one rank each are one job."""
    entries = (p for p in folder.iterdir() if p.suffix.lower() in LOGS and not p.name.startswith("."))
    paths = sorted(p for p in entries if p.is_file())[:_MOST_LOGS]
    fitting = []
    for path in paths:
        try:
            fitting.append((path, _table(path, stated)))
        except UserError as error:
            pass_over(error)
    if not fitting:
        return None
    by_rank = [path for path, _ in fitting if _RANK_IN_NAME.search(path.name)]
    if len(fitting) > 1 and len(by_rank) < len(fitting):
        names = ", ".join(path.name[:60] for path, _ in fitting[:6])
        raise UserError(f"{len(fitting)} logs in one folder", where=folder, do=f"name one of: {names}")
    return _of_tables(fitting, stated.unit, "csv")


def _table(path: Path, stated: Stated) -> LogTable:
    return (read_jsonl if _suffix(path) in _JSON_LINES else read_csv)(path, stated)


def _of_tables(tables: Sequence[tuple[Path, LogTable]], unit: str | None, kind: str, written_by: str = "") -> Series:
    tracks, runs = list[Track](), list[LoggedRun]()
    corrections, reads, reserved = Corrections(), [], list[str]()
    if unit is not None and not any(takes_unit(table) for _, table in tables):
        raise unit_not_taken(tables[0][0], "the log states the unit of its times, or has none")
    for path, table in tables:
        named = _RANK_IN_NAME.search(path.name) if len(tables) > 1 else None
        tracks_read, runs_read, read, corrections_here = runs_of(table, unit, int(named[1]) if named else None)
        tracks += tracks_read
        runs += runs_read if not runs or not named else []  # if each rank has a log, those of the first
        reads.append(read)
        reserved += [one for one in reservations(table) if one not in reserved]
        corrections = corrections.joined(corrections_here)
    if len(tables) > 1 and runs:
        runs = [replace(runs[0], gpus=runs[0].gpus or len(tracks))]
    absent = missing_ranks(tracks) if len(runs) == 1 else []
    notes = (*reserved, *corrections.notes(), *absent)
    files = tuple(shown_path(path) for path, _ in tables)
    unknown = (
        None if tracks else Unknown("no row has a step and a positive time", another_run("log the time of every step"))
    )
    order = sorted(tracks, key=lambda t: (t.rank is None, t.rank or 0, t.host)) if len(runs) == 1 else tracks
    restarts = tuple(sorted(corrections.restarts)) if len(runs) == 1 else ()
    first = tables[0][1]
    by = written_by or (first.name if first.name in PROGRAMS else writer_of(first.columns["step"]))
    series = Series(kind, files, reads[0], tuple(order), restarts, notes, unknown, tuple(runs), written_by=by)
    return replace(series, notes=(*notes, *apart_notes(series)))


def _states(folder: Path, stated: Stated) -> Series | None:
    """The trainer state in the folder, else that of its latest checkpoint."""
    candidates = [folder / STATE, *sorted(folder.glob(f"{CHECKPOINT}*/{STATE}"), key=_checkpoint, reverse=True)]
    path = next((p for p in candidates if p.is_file()), None)
    return None if path is None else _of_state(path, stated)


def _checkpoint(path: Path) -> int:
    number = path.parent.name.removeprefix(CHECKPOINT)
    return int(number) if number.isdecimal() and len(number) < 16 else -1


def _of_state(path: Path, stated: Stated) -> Series:
    history = read_state(path)
    table = state_table(history)
    if table is not None:
        if table.columns.get("clock", LogColumn(0, "", "")).name == "wall_time":
            return _of_tables([(path, table)], stated.unit, "tensorboard")
        series = _of_tables([(path, table)], stated.unit, "trainer_state", "transformers Trainer")
        means = "each sample is the mean of the steps between two entries"
        return replace(series, notes=(*series.notes, means))
    notes = []
    rates = (finite(entry.get("train_steps_per_second"), 1e-9, 1e9) for entry in reversed(history))
    rate = next((rate for rate in rates if rate is not None), None)
    if rate is not None:
        notes.append(
            f"the whole run took {1 / rate:.4g} s per step on average, with its warm-up,"
            " evaluations and checkpoints (train_steps_per_second)"
        )
    return Series("trainer_state", (shown_path(path),), "", (), (), tuple(notes), _NO_TIMES)


def _captures(folder: Path, stated: Stated) -> Series | None:
    named = (p for p in folder.iterdir() if CAPTURE_NAME.fullmatch(p.name))
    captured = _captured(sorted(p for p in named if p.is_file())[:_MOST_LOGS])
    if captured is not None:
        refuse_unit(stated, folder)
    return captured


def _captured(paths: Sequence[Path]) -> Series | None:
    """The step times that the probe recorded without the profiler."""
    tracks, source = [], set()
    for path in paths:
        rank = int(CAPTURE_NAME.search(path.name)[1])  # type: ignore[index]
        record = record_beside(path, rank)
        step, ns = timed_steps(record)
        host = (record.text("host") or "")[:200]
        if len(step):
            source.add(record.text("steps.clock") or "host")
            tracks.append(Track(rank, host, step, ns / 1e9))
    if not tracks:
        return None
    files = tuple(shown_path(path) for path in paths)
    unit = f"step times of capture records, by the {' or '.join(sorted(source))} clock"
    note = "steps with the profiler on are left out"
    return Series("capture", files, unit, tuple(tracks), (), (note, *missing_ranks(tracks)))


# Several traces of one run: the steps of every window, by the numbers of their ProfilerStep.

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
