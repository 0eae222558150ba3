"""The end of a process whose input was measured."""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import NoReturn

from ..guard import quietly

INTERRUPTED, DEFECT = 130, 70


def end(status: int) -> NoReturn:
    """End the process at once: no handler, callback or exit function of the job runs, which might save or report."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            quietly(stream.flush)
    for child in multiprocessing.active_children():
        if child.daemon:  # Python would end these at its exit
            quietly(child.terminate)
    os._exit(status)
