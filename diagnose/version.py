"""The version of the package, apart so that any module can state it."""

import time

__version__ = "0.1.0"
IMPORTED_NS = time.time_ns()
"""When this process began to read the code of the package, nanoseconds since 1970."""
