"""Prints a summary of a call in a few lines. told.py SUMMARY.json"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import card_tables as more
import job_tables as tables
from told_pages import Call, read

LAST_LINES = 4
OF_PARTS = (
    ("cuda-paths", more.paths), ("captures", tables.captures), ("captures", tables.pairs), ("limits", tables.limits),
    ("overhead", more.noise), ("tune-told", tables.tune), ("faults", tables.faults), ("faults", tables.score),
    ("peaks", more.peaks), ("fit", more.fit), ("graphs", more.graphs), ("nsight", more.nsight),
)  # fmt: skip


def main() -> None:
    """Print how parts ended, and the tables of what was found."""
    path = Path(sys.argv[1])
    call = read(path)
    print(f"== call {call.number} of {call.commit or 'no commit'}")
    for line in (*failures(call), *found(call)):
        print(line)


def failures(call: Call) -> Iterator[str]:
    """The ends of the logs of parts that failed."""
    for name, text in call.failed.items():
        lines = [line for line in text.splitlines() if line.strip()][-LAST_LINES:]
        yield f"!! {name} | {' / '.join(lines)}"[:400]


def found(call: Call) -> Iterator[str]:
    """The tables."""
    for part, write in OF_PARTS:
        if any(name.startswith(part) for name in call.found):
            text = write([call]).strip()
            if text:
                yield f"\n{part}:\n{text}"


if __name__ == "__main__":
    main()
