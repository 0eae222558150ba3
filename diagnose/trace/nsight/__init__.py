"""Read exports of Nsight Systems (SQLite) into the columns of a trace. The readers are imported only for such a
file.
"""

from pathlib import Path

from diagnose.trace.source import opened

MAGIC = b"SQLite format 3\0"


def is_database(path: Path) -> bool:
    """Whether the file begins like an SQLite database; False if it cannot be read.

    Raises:
        UserError: it is a pipe, a socket or a device.
    """
    try:
        with opened(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
