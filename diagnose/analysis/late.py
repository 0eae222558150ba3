"""Modules that are imported when they are needed, and stay until the process ends."""

import gc
import importlib
import sys
from types import ModuleType


def imported(module: str) -> ModuleType:
    """The module, kept from the collector of garbage with all that it imports.

    To look through that during the import, the analysis and the end of the process takes a tenth of the analysis of a
    small trace.
    """
    if module in sys.modules:
        return sys.modules[module]
    collecting = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
