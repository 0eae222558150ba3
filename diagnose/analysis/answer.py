"""Analyze a path, or return the diagnosis of an earlier analysis if nothing has changed since."""

from pathlib import Path

from diagnose.analysis.cached import Kept
from diagnose.analysis.late import imported
from diagnose.analysis.options import Options
from diagnose.diagnosis import Diagnosis


def analyze(path: str | Path, *, options: Options | None = None) -> Diagnosis:
    """Diagnose the job whose trace, or whose folder of traces with one file for each rank, is at `path`.

    Args:
        path: a file or folder, or as text the URL of one that fsspec reaches (`s3://bucket/run/`).
        options: what the user states about the job.

    Raises:
        UserError: the input or a rule cannot be used.
    """
    kept = Kept.of(path, options or Options())
    if kept is not None and (known := kept.diagnosis()) is not None:
        return known
    job = imported("diagnose.analysis.job")  # with all that reads, measures and judges
    with job.examined(path, options) as whole:
        if kept is not None:
            kept.keep(whole.diagnosis)
        diagnosis: Diagnosis = whole.diagnosis
        return diagnosis
