"""The user's choices for loading traces."""

from collections.abc import Callable
from pathlib import Path

import msgspec


class Loading(msgspec.Struct, frozen=True):
    """The user's choices for loading. Only the last two change what is loaded.

    Attributes:
        cache: whether loaded traces are kept on disk and taken from there.
        jobs: number of parsing processes: a trace each, or a share each of a single one, which compiled code reads with
            two cores in one process; None lets size and idle cores decide.
        watch: called with the file that is read, its bytes read so far, and its size.
        memory_bytes: limit on the memory of loading, None for no limit. With a limit, columns are kept on disk in the
            folder for temporary files, and neither cache nor further processes are used.
        python_functions: whether events of Python functions are kept if `memory_bytes` is given.
    """

    cache: bool = False
    jobs: int | None = 1
    watch: Callable[[Path, int, int], None] | None = None
    memory_bytes: int | None = None
    python_functions: bool = False
