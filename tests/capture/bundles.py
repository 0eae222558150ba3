"""Reading back what a capture left."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def events(folder: Path, rank: int = 0) -> list[dict[str, Any]]:
    """The events of a rank's trace."""
    loaded: dict[str, Any] = json.loads(gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes()))
    return list(loaded["traceEvents"])


def ranges(folder: Path, rank: int = 0) -> dict[str, list[tuple[float, float]]]:
    """Begin and end, in microseconds, of each range by its name."""
    found: dict[str, list[tuple[float, float]]] = {}
    for event in events(folder, rank):
        if event.get("cat") == "user_annotation":
            found.setdefault(event["name"], []).append((event["ts"], event["ts"] + event["dur"]))
    return found


def facts(folder: Path, rank: int = 0) -> dict[str, Any]:
    """The capture facts of a rank."""
    loaded: dict[str, Any] = json.loads((folder / f"capture-rank{rank}.json").read_text())
    return loaded


def marker(folder: Path, rank: int = 0) -> dict[str, Any]:
    """The marker of a rank."""
    loaded: dict[str, Any] = json.loads((folder / f"rank{rank}.done").read_text())
    return loaded
