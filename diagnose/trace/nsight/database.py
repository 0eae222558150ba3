"""An untrusted SQLite database, read so that nothing in it runs.

It is opened read-only and as an immutable file, without its journals. Only plain tables are read, by columns that they
have: no view, no virtual table, no generated column, no trigger. Work is bounded by the size of the file: a damaged or
hostile tree of pages that leads in circles ends with a message.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import numpy as np

from diagnose.arrays import Ints
from diagnose.errors import UserError, printable

MISSING = int(np.iinfo(np.int64).min)  # a value that is not a whole number, or is absent
LONGEST_TEXT = 4096

_ROWS_AT_ONCE = 1 << 14
_OPERATIONS_BETWEEN_LOOKS = 100_000
_OPERATIONS_PER_BYTE, _OPERATIONS_AT_LEAST = 64, 50_000_000
_LARGEST_VALUE_BYTES = 1 << 28
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
_FUNCTIONS = {"substr", "typeof"}
_AGAIN = "export it again: nsys export --type sqlite REPORT.nsys-rep"


class Database:
    """The plain tables of one file, by name; a context manager.

    Raises:
        UserError: from every method, if the file is damaged, or reading it would not end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self._looks_left = (_OPERATIONS_AT_LEAST + _OPERATIONS_PER_BYTE * self.size) // _OPERATIONS_BETWEEN_LOOKS
        self._raised: BaseException | None = None
        address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
        self._connection: sqlite3.Connection = self._guarded(
            lambda: sqlite3.connect(address, uri=True, isolation_level=None)
        )
        try:
            self._tables = self._hardened()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> "Database":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @property
    def tables(self) -> Sequence[str]:
        """The plain tables, by name."""
        return list(self._tables)

    def columns(self, table: str) -> frozenset[str]:
        """The columns of the table; empty if there is no such table."""
        return self._tables.get(table, frozenset())

    def integers(self, table: str, columns: Sequence[str]) -> Iterator[Ints]:
        """The rows in blocks of shape (rows, columns), MISSING if a value is not a whole number or is absent."""
        for rows in self._blocks(table, [self._integer(table, column) for column in columns]):
            yield np.array(rows, np.int64)

    def texts(self, table: str, columns: Sequence[str], text: str) -> Iterator[tuple[Ints, list[str | None]]]:
        """Like `integers`, with the first characters of the column `text` as well, None if it is not text."""
        wanted = [*(self._integer(table, column) for column in columns), self._text(table, text)]
        for rows in self._blocks(table, wanted):
            *numbers, told = zip(*rows, strict=True)
            yield np.array(numbers, np.int64).reshape(len(columns), -1).T, list(told)

    def _integer(self, table: str, column: str) -> str:
        if column not in self.columns(table):
            return str(MISSING)
        return f'CASE typeof("{column}") WHEN \'integer\' THEN "{column}" ELSE {MISSING} END'

    def _text(self, table: str, column: str) -> str:
        if column not in self.columns(table):
            return "NULL"
        return f'CASE typeof("{column}") WHEN \'text\' THEN substr("{column}", 1, {LONGEST_TEXT}) END'

    def _blocks(self, table: str, expressions: Sequence[str]) -> Iterator[list[Any]]:
        if table not in self._tables:
            return
        cursor = self._run(f'SELECT {", ".join(expressions)} FROM "{table}"')
        while rows := self._guarded(lambda: cursor.fetchmany(_ROWS_AT_ONCE)):
            yield rows

    def _hardened(self) -> Mapping[str, frozenset[str]]:
        """Closes every way to run something; the plain tables with their columns."""
        connection = self._connection
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(self._is_enough, _OPERATIONS_BETWEEN_LOOKS)
        for setting in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0"):
            self._run(f"PRAGMA {setting}")
        listed = self._run(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND sql LIKE 'CREATE TABLE%'"
        )  # a virtual one has rootpage 0, unless the file lies, and is created as one
        names = [name for (name,) in self._guarded(listed.fetchall) if isinstance(name, str) and name.isidentifier()]
        tables = {name: self._columns_of(name) for name in names}
        connection.set_authorizer(_only_reads)
        return tables

    def _columns_of(self, table: str) -> frozenset[str]:
        rows = self._guarded(self._run(f'PRAGMA table_info("{table}")').fetchall)
        return frozenset(name for _, name, *_ in rows if isinstance(name, str) and name.isidentifier())

    def _run(self, statement: str) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self._guarded(lambda: self._connection.execute(statement))
        return cursor

    def _guarded(self, call: Any) -> Any:
        """Call SQLite; any other error than a lack of memory means that the file is unusable.

        These are SQLite's own errors, those of converting the file's content to Python's numbers and texts, and those
        of its messages, which quote the file.
        """
        try:
            return call()
        except MemoryError:
            raise
        except Exception as error:
            if self._raised is not None:
                raise self._raised from None
            raise self._unusable(error) from error

    def _is_enough(self) -> bool:
        """Asked between operations. An exception of a signal handler would be lost here, so it is kept for
        `_guarded`.
        """
        try:
            self._looks_left -= 1
            return self._looks_left < 0
        except BaseException as error:
            self._raised = error
            return True

    def _unusable(self, error: Exception) -> UserError:
        if self._looks_left < 0:
            why = "reading it takes far more work than a file of its size can need"
        elif "interrupt" in str(error):
            raise KeyboardInterrupt  # it came between two lines of `_is_enough`
        elif isinstance(error, UnicodeError):
            why = "it holds names that are no UTF-8"
        else:
            why = f"SQLite says: {printable(str(error))[:200]}"
        return UserError("the database is damaged, or not from Nsight Systems", where=self.path, why=why, do=_AGAIN)


def _only_reads(action: int, _first: str | None, second: str | None, *_of: str | None) -> int:
    permitted = action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS)
    return sqlite3.SQLITE_OK if permitted else sqlite3.SQLITE_DENY
