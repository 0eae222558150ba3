"""What the user may choose about how traces are loaded."""

from collections.abc import Callable
from pathlib import Path

import msgspec


class Loading(msgspec.Struct, frozen=True):
    """What the user may choose about loading. Only the last two change what is loaded.

    Attributes:
        cache: whether loaded traces are kept on disk and taken from there.
        jobs: how many processes parse: a trace each, or a share each of a single one, which by compiled code two cores
            read in one process; None lets size and idle cores decide.
        watch: told which file is read, how many of its bytes have been, and how many it has.
        memory_bytes: how much memory loading may take, None for as much as it needs. Columns are then kept on disk in
            the folder for temporary files, and neither cache nor further processes are used.
        python_functions: whether events of Python functions are kept when `memory_bytes` is given.
    """

    cache: bool = False
    jobs: int | None = 1
    watch: Callable[[Path, int, int], None] | None = None
    memory_bytes: int | None = None
    python_functions: bool = False
