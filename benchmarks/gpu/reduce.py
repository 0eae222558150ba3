"""A trace of a few steps made small: the last steps of it with all that lies in them, and no path of the machine.

reduce.py TRACE.json.gz SMALL.json.gz [BYTES]
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST = 2_000_000
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync")
LAUNCHES = ("cuda_runtime", "cuda_driver")
OF_THE_MACHINE = ("traceName", "trace_id")
PATH = re.compile(r'"(?:/[^/"\\]+){2,}/([^/"\\]+)"')


def reduced(source: Path, target: Path, most: int = MOST) -> dict[str, Any]:
    """As many of the last steps as lie below `most` bytes, or the last one, whatever it takes."""
    with gzip.open(source, "rt") as file:
        page = json.load(file)
    steps = sorted(filter(marks_step, page["traceEvents"]), key=lambda event: event["ts"])
    if not steps:
        return {"failed": "no steps"}
    for count in range(len(steps), 0, -1):
        kept = list(inside(page["traceEvents"], steps[-count]["ts"], steps[-1]["ts"] + steps[-1]["dur"]))
        target.write_bytes(packed(page, kept))
        if target.stat().st_size <= most:
            break
    return {
        "steps": count,
        "events": len(kept),
        "of": len(page["traceEvents"]),
        "bytes": target.stat().st_size,
    }


def marks_step(event: dict[str, Any]) -> bool:
    """Whether the event is a step of the host."""
    return str(event.get("name", "")).startswith("ProfilerStep#") and event.get("cat") != "gpu_user_annotation"


def packed(page: dict[str, Any], events: list[dict[str, Any]]) -> bytes:
    """The trace with these events, compressed; a path of the machine keeps its last part."""
    rest = {key: value for key, value in page.items() if key not in OF_THE_MACHINE}
    text = json.dumps({**rest, "traceEvents": events}, separators=(",", ":"))
    return gzip.compress(PATH.sub(r'"\1"', text).encode(), 9, mtime=0)


def inside(events: list[dict[str, Any]], begin: float, end: float) -> Iterator[dict[str, Any]]:
    """What describes the trace, what the host did between two moments, and what the device did of that or meanwhile.

    What was launched earlier and runs meanwhile stays too: without it the device would seem to stand still.
    """
    launched = {
        event["args"]["correlation"]
        for event in events
        if event.get("cat") in LAUNCHES and begin <= event["ts"] <= end and "correlation" in event.get("args", {})
    }
    for event in events:
        since = event.get("ts")
        if event.get("ph") == "M" or since is None or begin <= since <= end:
            yield event
        elif event.get("cat") in ON_DEVICE:
            meanwhile = since <= end and since + event.get("dur", 0) >= begin
            if meanwhile or event["args"].get("correlation") in launched:
                yield event
        elif event.get("ph") in ("s", "f", "t") and event.get("id") in launched:
            yield event


if __name__ == "__main__":
    print(reduced(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else MOST))
