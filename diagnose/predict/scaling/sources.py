"""One run from a file or folder: a diagnosis as JSON, or a log of steps. Traces are left to the analysis."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from diagnose.diagnosis import SCHEMA_VERSION, Diagnosis
from diagnose.errors import UserError, printable, shown_path
from diagnose.predict.scaling.growth import RUN_NOISE
from diagnose.predict.scaling.of_diagnosis import run_of
from diagnose.predict.scaling.run import Run
from diagnose.series import read_series
from diagnose.trace.discover import trace_files
from diagnose.trace.source import opened

_LARGEST_BYTES = 256 << 20
_LOGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt", ".log")
_ABSENT = msgspec.Raw(b"")


class _Keys(msgspec.Struct):
    """What tells the kinds of JSON apart."""

    schema_version: msgspec.Raw = _ABSENT
    verdict: msgspec.Raw = _ABSENT
    log_history: msgspec.Raw = _ABSENT


def read_run(path: Path, gpus: int | None) -> Run | None:
    """The run at `path`; None where it holds traces, or nothing that this can tell from them.

    Args:
        path: a file or folder.
        gpus: of the run, where the user states them.

    Raises:
        UserError: it cannot be read, or nothing tells its GPUs.
    """
    if not path.exists():
        raise UserError("no such file or folder", where=path, do="check the path")
    if path.is_dir():
        return None if trace_files(path) else _of_log(path, gpus)
    if path.suffix.lower() in _LOGS:
        return _of_log(path, gpus)
    if path.suffix.lower() != ".json" or path.stat().st_size > _LARGEST_BYTES:
        return None
    with opened(path, "the run") as file:
        content = file.read()
    keys = _keys(content)
    if keys.schema_version and keys.verdict:
        return with_gpus(run_of(decoded(content, path), shown_path(path)), gpus)
    return _of_log(path, gpus) if keys.log_history else None


def with_gpus(run: Run, gpus: int | None) -> Run:
    """The run with the GPUs that the user states; the tokens of a step are those of each GPU."""
    if gpus is None or gpus == run.gpus:
        return run
    tokens = None if run.tokens_per_step is None else run.tokens_per_step / run.gpus * gpus
    return replace(run, gpus=gpus, tokens_per_step=tokens)


def decoded(content: bytes, path: Path) -> Diagnosis:
    """The diagnosis that `analyze --json` wrote.

    Raises:
        UserError: it is none, or of another version.
    """
    try:
        diagnosis = msgspec.json.decode(content, type=Diagnosis)
    except msgspec.DecodeError as error:
        raise _unusable(path, str(error)) from error
    if diagnosis.schema_version != SCHEMA_VERSION:
        raise _unusable(path, f"its schema_version is {diagnosis.schema_version}, not {SCHEMA_VERSION}")
    return diagnosis


def _unusable(path: Path, why: str) -> UserError:
    return UserError("cannot use the diagnosis", where=path, why=why, do="make it again: diagnose analyze RUN --json")


def _keys(content: bytes) -> _Keys:
    try:
        return msgspec.json.decode(content, type=_Keys)
    except msgspec.DecodeError:
        return _Keys()


def _of_log(path: Path, gpus: int | None) -> Run:
    """The median step of a log, over the medians of its ranks.

    Raises:
        UserError: no step times, or nothing tells the GPUs.
    """
    series = read_series(path)
    if not series.tracks:
        because = series.unknown.because if series.unknown else ""
        raise UserError("no step times in the log", where=path, why=because, do="log the time of every step")
    ranks = {track.rank for track in series.tracks if track.rank is not None}
    if gpus is None and not ranks:
        raise UserError("nothing tells the GPUs of the run", where=path, do=f"state them: 8={printable(str(path))}")
    medians = [float(np.median(track.seconds)) for track in series.tracks]
    return Run(shown_path(path), gpus or len(ranks), step_s=float(np.median(medians)), noise_share=RUN_NOISE)
