"""Trees and rows as the bytes of a file."""

import csv
import io
import json
import random
from typing import Any

from . import beside
from .damage import damaged
from .tree import mutate, mutated


def form(seeded: random.Random) -> tuple[str, ...]:
    """The option of a command that its answer is asked for as JSON, more often than not."""
    return ("--json",) if seeded.random() < 0.6 else ()


def at_times_damaged(seeded: random.Random, text: bytes, share: float = 0.25) -> bytes:
    """The text, in so large a share of the tries with other bytes."""
    return damaged(seeded, text) if seeded.random() < share else text


def spoilt(seeded: random.Random, content: Any, most: int = 3) -> bytes:
    """Mutated content as JSON, whose bytes are at times damaged."""
    return at_times_damaged(seeded, json_bytes(mutated(seeded, content, most)), 0.15)


def json_bytes(value: Any) -> bytes:
    """JSON, with NaN and Infinity as Python writes them; lists without end for what nests too deep."""
    try:
        return json.dumps(value).encode()
    except (RecursionError, ValueError):
        return b"[" * 3000 + b"]" * 3000


def log_bytes(seeded: random.Random, name: str) -> bytes:
    """A mutated log of steps in the form that its name tells."""
    if name == "trainer_state.json":
        return json_bytes(mutated(seeded, beside.trainer_state(seeded)))
    if name.startswith("capture"):
        record = beside.record(seeded)
        mutate(seeded, record.get("steps") or record)
        return json_bytes(record)
    rows = mutated(seeded, beside.steps_table(seeded), 4)
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if name.endswith("jsonl"):
        return b"\n".join(json_bytes(row) for row in rows)
    return csv_bytes(rows, {"steps.csv": ",", "steps.tsv": "\t"}.get(name, seeded.choice(",;")))


def csv_bytes(rows: list[dict[str, Any]], delimiter: str = ",") -> bytes:
    """Rows with a header; the columns are the keys of the first rows."""
    names = list(dict.fromkeys(key for row in rows[:50] for key in row))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in names])
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    return json_bytes(value).decode()
