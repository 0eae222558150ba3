"""The tables of the last answers, which an agent reads as resources, a page at a time."""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from hashlib import sha256

from diagnose.errors import UserError
from diagnose.report.markdown import MOST_TOKENS
from diagnose.report.markdown.github import tokens
from diagnose.report.tables import CapacityTable, csv_of

TEMPLATE = "diagnose://{answer}/{table}{?row}"
MOST_ANSWERS = 8
_URI = re.compile(r"diagnose://(?P<answer>[0-9a-f]{12})/(?P<table>\w{1,40})(?:\?row=(?P<row>\d{1,9}))?")
_FOR_HEAD = 100  # tokens of the line above a page
_LONGEST_ROW = 1_800  # bytes, of which each is one token at most


class Tables:
    """The tables of the last `MOST_ANSWERS` answers; those without rows are left out."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Mapping[str, CapacityTable]] = OrderedDict()

    def keep(self, content: bytes, tables: Mapping[str, CapacityTable]) -> str:
        """Keep the tables of an answer with this content; return the line with their addresses."""
        answer = sha256(content).hexdigest()[:12]
        self._kept[answer] = {name: table for name, table in tables.items() if table.rows}
        self._kept.move_to_end(answer)
        while len(self._kept) > MOST_ANSWERS:
            self._kept.popitem(last=False)
        listed = ", ".join(f"{name} ({len(table.rows):,})" for name, table in self._kept[answer].items())
        return f"Tables, as resources diagnose://{answer}/TABLE (rows): {listed}." if listed else ""

    def listed(self) -> Iterator[tuple[str, str, int]]:
        """The address, name and number of rows of each table that is kept."""
        for answer, tables in self._kept.items():
            for name, table in tables.items():
                yield f"diagnose://{answer}/{name}", name, len(table.rows)

    def page(self, uri: str) -> str:
        """Rows of a table as CSV, below `MOST_TOKENS` tokens, after a line with their numbers and where the next are.

        Raises:
            UserError: no answer that is kept has this table or row.
        """
        asked = _URI.fullmatch(uri)
        table = self._kept.get(asked["answer"], {}).get(asked["table"]) if asked else None
        if asked is None or table is None:
            do = "call analyze, plan or compare again: the answer ends with the addresses of its tables"
            raise UserError("no such table", where=uri[:100], why=f"the last {MOST_ANSWERS} answers are kept", do=do)
        head, *rows = [_cut(line) for line in csv_of(table).decode().rstrip("\r\n").split("\r\n")]
        first = int(asked["row"] or 1)
        if not 1 <= first <= len(rows):
            raise UserError("no such row", where=uri, do=f"name one from 1 to {len(rows)}")
        shown = _fitting(rows[first - 1 :], MOST_TOKENS - _FOR_HEAD - tokens(head))
        last = first + len(shown) - 1
        more = "" if last == len(rows) else f"; go on at {uri.partition('?')[0]}?row={last + 1}"
        return "\n".join([f"# rows {first} to {last} of {len(rows)}{more}", head, *shown]) + "\n"


def _cut(line: str) -> str:
    raw = line.encode()
    return line if len(raw) <= _LONGEST_ROW else f"{raw[:_LONGEST_ROW].decode(errors='ignore')}..."


def _fitting(rows: list[str], most: int) -> list[str]:
    """The first rows that have at most so many tokens together, but one at least."""
    shown: list[str] = []
    for row in rows:
        most -= tokens(row) + 1
        if shown and most < 0:
            break
        shown.append(row)
    return shown
