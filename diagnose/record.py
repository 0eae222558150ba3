"""What the probe writes beside a trace: settings, sizes and step times that the trace does not hold."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LARGEST_BYTES = 16 << 20


@dataclass(frozen=True)
class CaptureRecord:
    """The content of `capture-rank{R}.json`, empty when there is none. Keys are read by dotted path."""

    values: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.values)

    def get(self, path: str) -> Any:
        """The value at `path`, such as "model.attn_implementation"; None where any part is missing or null."""
        found: Any = self.values
        for key in path.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def text(self, path: str) -> str | None:
        """The text at `path`, None when it is no text."""
        found = self.get(path)
        return found if isinstance(found, str) else None

    def flag(self, path: str) -> bool | None:
        """The flag at `path`, None when it is no flag."""
        found = self.get(path)
        return found if isinstance(found, bool) else None

    def number(self, path: str) -> float | None:
        """The number at `path`, None when it is no number."""
        found = self.get(path)
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def unprofiled_ns(record: CaptureRecord) -> list[float]:
    """Times of the steps that the capture took without the profiler, in the order of the run; nanoseconds."""
    times = record.get("steps")
    return [
        ns
        for key in ("control_before_ns", "control_after_ns")
        if isinstance(times, Mapping) and isinstance(found := times.get(key), list)
        for ns in found
        if isinstance(ns, int | float) and not isinstance(ns, bool)
    ]


def record_beside(trace: Path, rank: int) -> CaptureRecord:
    """The record of the rank in the trace's folder. One that cannot be read is as good as none: the trace decides."""
    path = trace.parent / f"capture-rank{rank}.json"
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_BYTES:
            return CaptureRecord()
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return CaptureRecord()
    return CaptureRecord(found) if isinstance(found, dict) else CaptureRecord()
