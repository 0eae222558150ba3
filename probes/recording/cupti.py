"""CUPTI lets go of the process when the window ends, where torch can do that.

Kineto leaves CUPTI attached by default, and each launch of a kernel then goes on to take longer: jobs that wait for the
host are slower to their end. It detaches, beside the job's next call into CUDA, if TEARDOWN_CUPTI is 1 as a recording
stops, and attaches again for the next. A recording that begins meanwhile holds no GPU activity, so the variable is set
only from the begin of the window's own recording until its trace is written. Before CUDA 12.6 CUPTI that comes back
breaks jobs with CUDA graphs.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

VARIABLE = "TEARDOWN_CUPTI"
SINCE = (12, 6)
_ours = False


def detach_at_stop() -> bool:
    """Have CUPTI detached as the recording that has begun stops; whether it will be. A value of the user's stays."""
    global _ours
    if VARIABLE not in os.environ and can_detach():
        os.environ[VARIABLE], _ours = "1", True
    return os.environ.get(VARIABLE) == "1"


def stay_attached() -> None:
    """Leave CUPTI as it is whenever another recording stops."""
    global _ours
    if _ours:
        os.environ.pop(VARIABLE, None)
        _ours = False


def can_detach() -> bool:
    """Whether torch was built with a CUDA whose CUPTI detaches beside CUDA graphs, too."""
    torch: Any = sys.modules.get("torch")
    found = re.match(r"(\d+)\.(\d+)", str(getattr(getattr(torch, "version", None), "cuda", None) or ""))
    return found is not None and (int(found[1]), int(found[2])) >= SINCE
