"""The folder for what is kept of a user's runs and machines, and whether anything is kept and quoted.

A variable decides, else whether the session is interactive.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "DIAGNOSE_LEDGER"
_ON = frozenset({"on", "1", "true", "yes"})
_NOBODY_LOOKS = ("SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "KUBERNETES_SERVICE_HOST", "CI")


def why_off(environment: Mapping[str, str] | None = None) -> str:
    """Why nothing is kept, "" if it is."""
    known = os.environ if environment is None else environment
    if stated := known.get(VARIABLE, ""):
        return "" if stated.lower() in _ON else f"{VARIABLE} is {stated!r}"
    under = next((name for name in _NOBODY_LOOKS if known.get(name, "").lower() not in ("", "0", "false")), "")
    return f"{under} is set, and {VARIABLE}=on is not" if under else ""


def default_folder() -> Path:
    """`$DIAGNOSE_DATA_DIR`, else `diagnose` in the user's folder for data.

    Raises:
        OSError: the user has no home folder.
    """
    if stated := os.environ.get("DIAGNOSE_DATA_DIR"):
        return Path(stated)
    base = os.environ.get("XDG_DATA_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path("~/.local/share").expanduser()) / "diagnose"
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "the user has no home folder") from error
