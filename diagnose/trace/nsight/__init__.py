"""Exports of Nsight Systems (SQLite) to the columns of a trace. What reads them loads when a file is one."""

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
