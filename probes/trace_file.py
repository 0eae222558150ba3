"""The trace as a file: exported by the profiler, completed and compressed, under its name only when it is whole."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import IO, Any

from .gc_ranges import Collections, as_events

COMPRESSION = 3  # a little larger is much sooner
_TAIL_BYTES = 64
_HEAD_BYTES = 1 << 20
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')


def write_trace(profiler: Any, path: Path, collections: Collections | None = None) -> None:
    """Export as Chrome JSON and compress to `path`; nothing is left behind when that fails.

    Raises:
        OSError: no space, no permission, or the exported file is cut.
    """
    raw = _scratch(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        profiler.export_chrome_trace(str(raw))
        _check_complete(raw)
        with raw.open("rb") as source, gzip.open(partial, "wb", COMPRESSION) as target:
            _copy_head(source, target, collections)
            shutil.copyfileobj(source, target, 1 << 20)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
        raw.unlink(missing_ok=True)


def _copy_head(source: IO[bytes], target: IO[bytes], collections: Collections | None) -> None:
    """The text up to the first event, and the collections before that one."""
    head = source.read(_HEAD_BYTES)
    events, base = _EVENTS.search(head), _BASE.search(head)
    found = as_events(collections, os.getpid(), int(base[1])) if collections and base else []
    cut = events.end() if events else 0
    more = b"".join(json.dumps(event).encode() + b",\n" for event in found) if events else b""
    target.write(head[:cut] + more + head[cut:])


def _scratch(folder: Path) -> Path:
    """A local file for the raw JSON, or one beside the trace where the temporary folder takes none."""
    try:
        handle, name = tempfile.mkstemp(suffix=".json", prefix="diagnose-")
    except OSError:
        handle, name = tempfile.mkstemp(suffix=".part", prefix=".diagnose-", dir=folder)
    os.close(handle)
    return Path(name)


def _check_complete(raw: Path) -> None:
    """The exporter reports no full disk; a cut file shows at its end."""
    with raw.open("rb") as file:
        file.seek(max(raw.stat().st_size - _TAIL_BYTES, 0))
        if not file.read().rstrip().endswith((b"}", b"]")):
            raise OSError("the exported trace is cut: no space left for it in the temporary folder?")
