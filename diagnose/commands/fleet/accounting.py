"""Jobs in a cluster's accounting: a CSV with a job in each row."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from diagnose.errors import UserError
from diagnose.trace.source import opened

JOB, GPU_HOURS, LABEL, PRICE = COLUMNS = ("job", "gpu_hours", "label", "gpu_hour_price")
_LARGEST_BYTES = 64 << 20
_MOST_HOURS = 1e12
_LONGEST = 200


@dataclass(frozen=True)
class Accounted:
    """The accounting of one job; None, and an empty label, if the cell is empty."""

    gpu_hours: float | None = None
    label: str = ""
    price: float | None = None


def read_accounting(path: Path) -> dict[str, Accounted]:
    """The accounting of each job, by the name of the job.

    Raises:
        UserError: it cannot be read, has no column of jobs or one of another name, two rows of one job, or a cell that
            is no number.
    """
    with opened(path, "the accounting") as file:
        content = file.read(_LARGEST_BYTES + 1)
    if len(content) > _LARGEST_BYTES:
        raise _unusable(path, f"it is larger than {_LARGEST_BYTES >> 20} MiB")
    try:
        table = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        rows = list(table)
    except (UnicodeDecodeError, csv.Error) as error:
        raise _unusable(path, str(error)) from error
    if strange := next((name for name in table.fieldnames or () if name.strip() and name not in COLUMNS), None):
        raise _unusable(path, f"it has a column of another name: {strange[:40]}")
    jobs: dict[str, Accounted] = {}
    for line, row in enumerate(rows, 2):
        name = (row.get(JOB) or "").strip()
        if not name:
            raise _unusable(path, f"row {line} names no job")
        if name in jobs:
            raise _unusable(path, f"row {line} is of a job that another row is of: {name}")
        jobs[name] = _accounted(row, path, line)
    return jobs


def _accounted(row: Mapping[str, str | None], path: Path, line: int) -> Accounted:
    return Accounted(
        gpu_hours=_number(row, GPU_HOURS, path, line),
        label=(row.get(LABEL) or "").strip()[:_LONGEST],
        price=_number(row, PRICE, path, line),
    )


def _number(row: Mapping[str, str | None], column: str, path: Path, line: int) -> float | None:
    text = (row.get(column) or "").strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= _MOST_HOURS:
        raise _unusable(path, f"{column} of row {line} is no number from 0 on: {text[:40]}")
    return number


def _unusable(path: Path, why: str) -> UserError:
    return UserError("cannot use the accounting", where=path, why=why, do=f"write a CSV with {', '.join(COLUMNS)}")
