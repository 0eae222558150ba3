"""The version of the package, apart so that any module can state it, and its compiled code of the version asked for."""

import importlib
import time
from types import ModuleType

__version__ = "0.1.0"
IMPORTED_NS = time.time_ns()
"""When this process began to read the code of the package, nanoseconds since 1970."""


def compiled(name: str, version: int) -> ModuleType | None:
    """Return the compiled module of a name, or None.

    None if it was built without a compiler or for another Python, or is of another version: an editable installation
    may hold a module compiled from older source.
    """
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    return module if getattr(module, "VERSION", None) == version else None
