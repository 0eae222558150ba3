"""A side from what is at a path: a diagnosis as JSON, a log of steps, or traces."""

from pathlib import Path

from diagnose import analysis
from diagnose.compare.side import Side, side_of, side_of_log
from diagnose.diagnosis.reading import LARGEST_BYTES, diagnosis_in, kind_of
from diagnose.errors import UserError, shown_path
from diagnose.series import read_series
from diagnose.trace import displayed
from diagnose.trace.discover import trace_files
from diagnose.trace.source import opened

_LOGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt", ".log")


def side_at(path: str, options: analysis.Options | None = None) -> Side:
    """The run at `path`: a file or folder, or the URL of traces.

    Args:
        path: a trace, a folder with one for each rank, a bundle of `diagnose run`, what `analyze --json` wrote, or
            a log of steps as `diagnose series` reads it.
        options: for the analysis of traces.

    Raises:
        UserError: it cannot be read, or holds no step.
    """
    told = _without_traces(Path(path)) if "://" not in path and path != "-" else None
    return told or side_of(analysis.analyze(path, options=options), shown_path(displayed(path)))


def _without_traces(path: Path) -> Side | None:
    """The side that a diagnosis or a log tells; None where the path is left to the analysis of traces."""
    if not path.exists():
        raise UserError("no such file or folder", where=path, do="check the path")
    shown = shown_path(path)
    if path.is_dir():
        return None if trace_files(path) else side_of_log(read_series(path), shown)
    if not path.is_file():
        return None
    if path.suffix.lower() in _LOGS:
        return side_of_log(read_series(path), shown)
    if path.suffix.lower() != ".json" or path.stat().st_size > LARGEST_BYTES:
        return None
    with opened(path, "the run") as file:
        content = file.read()
    kind = kind_of(content)
    if kind == "diagnosis":
        return side_of(diagnosis_in(content, path), shown)
    return side_of_log(read_series(path), shown) if kind == "trainer state" else None
