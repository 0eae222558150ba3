"""The work on one trace file of a large job, as it is sent to another process: a path there, digests back."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from diagnose.analysis.rank import analyses
from diagnose.errors import UserError
from diagnose.metrics.settings import Settings
from diagnose.ranks import RankDigest
from diagnose.trace import Loading
from diagnose.version import __version__


class Task(msgspec.Struct, frozen=True):
    """One file to read: its rank if the file does not name it, the user's settings, how to load it, and the version."""

    path: Path
    rank: int
    settings: Settings
    loading: Loading
    version: str = __version__


Result = Sequence[RankDigest] | UserError


def done(task: Task) -> Result:
    """The digests of the file's ranks, or why it cannot be used."""
    if task.version != __version__:
        why = f"it has diagnose {__version__}, this machine {task.version}"
        return UserError("a worker cannot be used", why=why, do="install the same version on both")
    try:
        return [analysis.digest for analysis in analyses([(task.path, task.rank)], task.settings, task.loading)]
    except UserError as error:
        return error
