"""The rows of `benchmarks/ladder.py`, by its own functions; the report is written anew after each.

ladder_rows.py REPO OUT
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kit import TINY, left_s, tell, tried

sys.path.insert(1, str(Path(sys.argv[1]) / "benchmarks"))
import ladder

FIRST = ("15.9", "15.6", "15.1", "15.8", "15.5", "15.7", "15.4", "15.3", "15.2-oom", "15.5-oom")
LIMIT_GIB = 62.9  # the ladder's board: 63.4 GiB, of which the context takes half
KEPT = ("outcome", "reason", "rung", "settings", "tokens_per_s", "mfu", "allocated_bytes", "reserved_bytes")


def main() -> None:
    """Measure row after row."""
    out, options = Path(sys.argv[2]), ladder.parsed(["--tiny"] if TINY else ["--memory-gib", str(LIMIT_GIB)])
    with tempfile.TemporaryDirectory() as folder:
        ceilings = ladder.child({"task": "ceilings", "tiny": TINY}, Path(folder))
    if ceilings.get("device") is None:
        tell({"failed": ceilings})
        raise SystemExit(1)
    device, rows = ladder.resolved(ceilings, options), []
    for rung in sorted(ladder.chosen(options), key=place):
        rows.append(measured(rung, options, device))
        print(rung.settings, rows[-1]["outcome"], rows[-1].get("tokens_per_s"), flush=True)
        tell(reported({"device": ladder.described(device), "ceilings": ceilings, "rows": rows}, out))


def place(rung: Any) -> int:
    """The most telling row first."""
    names = [row["row"] for row in rung.recorded]
    return min((FIRST.index(name) for name in names if name in FIRST), default=99)


def measured(rung: Any, options: Any, device: Any) -> dict[str, Any]:
    """One row, however it ends."""
    row = {"rung": rung.name, "settings": rung.settings, "recorded": rung.recorded}
    if left_s() < 45 and not TINY:
        return row | {"outcome": "not run", "reason": "no time left"}
    ladder._ROW_TIMEOUT_S = max(left_s() - 10, 20)
    found = tried(ladder.run_rung, rung, options, ladder.TINY_MODEL if TINY else ladder.MODEL, device)
    return row | {"outcome": "failed", "reason": found["failed"]} if "failed" in found else found


def reported(found: dict[str, Any], out: Path) -> dict[str, Any]:
    """What the ladder writes, and its short form."""
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M")
    report = {"date": date, "command": "benchmarks/gpu/ladder_rows.py", "tiny": TINY, **found}
    for old in out.glob("*-ladder-*"):
        old.unlink()
    written = tried(lambda: str(ladder.write(report, out)))
    return {
        "device": found["device"],
        "ceilings": found["ceilings"],
        "written": written,
        "rows": [*map(short, found["rows"])],
    }


def short(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its steps."""
    recorded = [float(each["tokens_per_s_per_gpu"]) for each in row["recorded"] if each["tokens_per_s_per_gpu"]]
    steps = sorted(row.get("step_s") or [])
    return {
        **{key: row.get(key) for key in KEPT},
        "recorded": recorded[0] if recorded else None,
        "step_s": steps[len(steps) // 2] if steps else None,
    }


if __name__ == "__main__":
    main()
