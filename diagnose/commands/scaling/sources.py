"""One run from a file or folder: a diagnosis as JSON, or a log of steps. Traces are left to the analysis."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from diagnose.errors import UserError, printable, shown_path
from diagnose.predict.growth import RUN_NOISE
from diagnose.predict.job_run import JobRun
from diagnose.predict.run_of_diagnosis import run_of
from diagnose.series import Series, read_without_traces


def read_run(path: Path, gpus: int | None) -> JobRun | None:
    """The run at `path`; None if it holds traces, or nothing that can be distinguished from them.

    Args:
        path: a file or folder.
        gpus: of the run, if the user states them.

    Raises:
        UserError: it cannot be read, or its GPUs are unknown.
    """
    told = read_without_traces(path)
    if isinstance(told, Series):
        return _of_log(told, path, gpus)
    return None if told is None else with_gpus(run_of(told, shown_path(path)), gpus)


def with_gpus(run: JobRun, gpus: int | None) -> JobRun:
    """The run with the user's number of GPUs; tokens per step are those of each GPU."""
    if gpus is None or gpus == run.gpus:
        return run
    tokens = None if run.tokens_per_step is None else run.tokens_per_step / run.gpus * gpus
    return replace(run, gpus=gpus, tokens_per_step=tokens)


def _of_log(series: Series, path: Path, gpus: int | None) -> JobRun:
    """The median step of a log, over the medians of its ranks.

    Raises:
        UserError: there are no step times, or the GPUs are unknown.
    """
    if not series.tracks:
        because = series.unknown.because if series.unknown else ""
        raise UserError("no step times in the log", where=path, why=because, do="log the time of every step")
    ranks = {track.rank for track in series.tracks if track.rank is not None}
    if gpus is None and not ranks:
        raise UserError("nothing tells the GPUs of the run", where=path, do=f"state them: 8={printable(str(path))}")
    medians = [float(np.median(track.seconds)) for track in series.tracks]
    return JobRun(shown_path(path), gpus or len(ranks), step_s=float(np.median(medians)), noise_share=RUN_NOISE)
