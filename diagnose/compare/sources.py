"""A side from what is at a path: a diagnosis as JSON, a log of steps, or traces."""

from pathlib import Path

from diagnose import analysis
from diagnose.compare.side import Side, side_of, side_of_log
from diagnose.errors import shown_path
from diagnose.series import Series, told_without_traces
from diagnose.trace import displayed


def side_at(path: str, options: analysis.Options | None = None) -> Side:
    """The run at `path`: a file or folder, or the URL of traces.

    Args:
        path: a trace, a folder with one for each rank, a bundle of `diagnose run`, what `analyze --json` wrote, or
            a log of steps as `diagnose series` reads it.
        options: for the analysis of traces.

    Raises:
        UserError: it cannot be read, or holds no step.
    """
    told = told_without_traces(Path(path)) if "://" not in path and path != "-" else None
    if isinstance(told, Series):
        return side_of_log(told, shown_path(path))
    if told is None:
        return side_of(analysis.analyze(path, options=options), shown_path(displayed(path)))
    return side_of(told, shown_path(path))
