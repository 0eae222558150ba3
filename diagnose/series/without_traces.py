"""Read a file or folder about a run without its traces: a diagnosis as JSON, or a log of steps."""

from pathlib import Path

from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.reading import LARGEST_BYTES, diagnosis_in, kind_of
from diagnose.errors import UserError
from diagnose.series.sources import read_series
from diagnose.series.tracks import Series
from diagnose.trace.discover import trace_files
from diagnose.trace.source import opened

_LOGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt", ".log")


def read_without_traces(path: Path) -> Diagnosis | Series | None:
    """The diagnosis or the log at `path`; None if it holds traces, or anything else.

    Raises:
        UserError: there is nothing, or it cannot be read.
    """
    if not path.exists():
        raise UserError("no such file or folder", where=path, do="check the path")
    if path.is_dir():
        return None if trace_files(path) else read_series(path)
    if path.suffix.lower() in _LOGS:
        return read_series(path)
    if not path.is_file() or path.suffix.lower() != ".json" or path.stat().st_size > LARGEST_BYTES:
        return None
    with opened(path, "the run") as file:
        content = file.read()
    kind = kind_of(content)
    if kind == "diagnosis":
        return diagnosis_in(content, path)
    return read_series(path) if kind == "trainer state" else None
