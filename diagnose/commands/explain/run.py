"""The run whose numbers an explanation uses: the one that is named, else the last one below `diagnose-runs`."""

import contextlib
from pathlib import Path

import msgspec

from diagnose import analysis
from diagnose.commands.explain.numbers import numbers_of
from diagnose.diagnosis import Diagnosis, NotJudged
from diagnose.errors import UserError, shown_path
from diagnose.facts import Facts
from diagnose.probes.protocol import DIAGNOSIS, RUNS
from diagnose.series import Series, read_without_traces
from diagnose.trace import Loading


class Run(msgspec.Struct, frozen=True):
    """A run with its numbers by name; `path` is how it is shown."""

    path: str
    diagnosis: Diagnosis
    facts: Facts

    def not_judged(self, rule: str) -> NotJudged | None:
        """Why a rule could not be judged; None if it was."""
        return next((each for each in self.diagnosis.not_judged if each.rule == rule), None)


def run_at(path: Path, loading: Loading | None = None) -> Run:
    """The run of a folder, of a trace, or of what `analyze --json` wrote.

    Args:
        path: where it is.
        loading: how traces are loaded.

    Raises:
        UserError: it cannot be read, or is a log, which has step times alone.
    """
    diagnosis = _diagnosis_at(path, loading or Loading())
    return Run(shown_path(path), diagnosis, numbers_of(diagnosis))


def last_run(folder: Path = Path(RUNS)) -> Path | None:
    """The folder of the last run below the working folder; None if there is none."""
    try:
        runs = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
        return max(runs, key=lambda path: path.stat().st_mtime_ns, default=None)
    except OSError:
        return None


def _diagnosis_at(path: Path, loading: Loading) -> Diagnosis:
    kept = path / DIAGNOSIS
    if kept.is_file():
        with contextlib.suppress(UserError):  # of another version: the traces beside it are read
            return _of_traces(read_without_traces(kept), kept)
    told = read_without_traces(path)
    return analysis.analyze(path, options=analysis.Options(loading=loading)) if told is None else _of_traces(told, path)


def _of_traces(told: Diagnosis | Series | None, path: Path) -> Diagnosis:
    if not isinstance(told, Diagnosis):
        raise UserError("no diagnosis to take numbers from", where=path, do="name a run's folder, or a trace")
    return told
