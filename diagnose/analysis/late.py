"""Modules that are imported when they are needed, and stay until the process ends."""

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType

_process = {"is a command": False}
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def imported(module: str, *, of_command: bool = False) -> ModuleType:
    """Import the module; in a command, also exempt all that it imports from garbage collection.

    Collecting through those objects during the import, the command and the end of the process takes a tenth of the
    analysis of a small trace. Elsewhere, as in a notebook, this would also exempt the user's objects, and other threads
    run.

    Args:
        module: its name.
        of_command: whether it is a command's: this process is one from here on.
    """
    _process["is a command"] |= of_command
    if not _process["is a command"] or module in sys.modules:
        return importlib.import_module(module)  # which waits if another thread is at it
    collecting = gc.isenabled()
    gc.disable()
    try:
        with _one_blas_thread():
            return importlib.import_module(module)
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Keep BLAS from starting threads if numpy is imported in here: they would spin on each core without any work.

    Jobs that the command starts inherit the environment unchanged.
    """
    if _BLAS_THREADS in os.environ:
        yield
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        yield
    finally:
        os.environ.pop(_BLAS_THREADS, None)
