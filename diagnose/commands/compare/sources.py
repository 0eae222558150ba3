"""Read a side from a path: a diagnosis as JSON, a log of steps, or traces."""

from pathlib import Path

from diagnose import analysis
from diagnose.commands.compare.side import Side, side_of, side_of_log
from diagnose.diagnosis import Diagnosis
from diagnose.errors import shown_path
from diagnose.series import Series, read_without_traces
from diagnose.trace import displayed


def run_at(path: str, options: analysis.Options | None = None) -> Diagnosis | Series:
    """The diagnosis of a file, a folder or a URL of traces; of a log, its step times alone.

    Args:
        path: a trace, a folder with one for each rank, a bundle of `diagnose run`, the output of `analyze --json`, or a
            log of steps as `diagnose series` reads it.
        options: for the analysis of traces.

    Raises:
        UserError: it cannot be read, or holds no step.
    """
    told = run_without_traces(path)
    return analysis.analyze(path, options=options) if told is None else told


def run_without_traces(path: str) -> Diagnosis | Series | None:
    """The diagnosis or log at `path` if no trace has to be analysed for it; None for traces.

    Raises:
        UserError: it cannot be read.
    """
    return read_without_traces(Path(path)) if "://" not in path and path != "-" else None


def side_of_run(told: Diagnosis | Series, path: str) -> Side:
    """The side of the diagnosis or log read from `path`.

    Raises:
        UserError: its times are impossible.
    """
    shown = shown_path(displayed(path))
    return side_of_log(told, shown) if isinstance(told, Series) else side_of(told, shown)


def side_at(path: str, options: analysis.Options | None = None) -> Side:
    """The run at `path`, as `run_at` reads it.

    Raises:
        UserError: it cannot be read, or holds no step.
    """
    return side_of_run(run_at(path, options), path)
