"""Whether predictions are kept and quoted: a variable decides, else whether the session is interactive."""

import os
from collections.abc import Mapping

VARIABLE = "DIAGNOSE_LEDGER"
_ON = frozenset({"on", "1", "true", "yes"})
_NOBODY_LOOKS = ("SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "KUBERNETES_SERVICE_HOST", "CI")


def why_off(environment: Mapping[str, str] | None = None) -> str:
    """Why no prediction is kept, "" if predictions are kept."""
    known = os.environ if environment is None else environment
    if stated := known.get(VARIABLE, ""):
        return "" if stated.lower() in _ON else f"{VARIABLE} is {stated!r}"
    under = next((name for name in _NOBODY_LOOKS if known.get(name, "").lower() not in ("", "0", "false")), "")
    return f"{under} is set, and {VARIABLE}=on is not" if under else ""
