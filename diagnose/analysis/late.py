"""Modules that are imported when they are needed, and stay until the process ends."""

import gc
import importlib
import sys
from types import ModuleType

_process = {"is a command": False}


def imported(module: str, *, of_command: bool = False) -> ModuleType:
    """The module; where the process is a command kept from the collector of garbage, with all that it imports.

    To look through that during the import, the command and the end of the process takes a tenth of the analysis of a
    small trace. Elsewhere, as in a notebook, objects of the user's would be kept with it, and other threads run.

    Args:
        module: its name.
        of_command: whether it is a command's: this process is one from here on.
    """
    _process["is a command"] |= of_command
    if not _process["is a command"] or module in sys.modules:
        return importlib.import_module(module)  # which waits where another thread is at it
    collecting = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
