"""Known faults under `diagnose run`: class, first advice, promised and achieved, each told as soon as it is known.

faults.py FOLDER first|rest|TEXT: those of the first call, the rest, or those whose name holds the text.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median
from typing import Any

from fault_table import FAULTS, Fault
from kit import DIAGNOSE, TINY, diagnosis_told, left_s, ran, tell, tried
from reduce import reduced

EACH_S = 22.0  # that one takes; with less than that left none is begun
FIRST = 22  # that a call has time for
JOB = str(Path(__file__).with_name("fault_job.py"))
SMALL_BYTES = 600_000
STARTING, SETTLING = 3, 10  # steps left out at the begin, and behind the window, where its trace is written


def main() -> None:
    """Run those that are asked for."""
    folder, which = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Any] = {}
    for name in chosen(which):
        enough = TINY or left_s() > EACH_S
        rows[name] = tried(one, folder, name, FAULTS[name]) if enough else {"not run": "no time left"}
        print(
            name, {key: rows[name].get(key) for key in ("class", "next", "promised", "achieved", "failed")}, flush=True
        )
        tell({"score": score(rows), "rows": rows})


def chosen(which: str) -> list[str]:
    """The names."""
    names = list(FAULTS)
    parts = {"first": names[:FIRST], "rest": names[FIRST:]}
    return parts.get(which, [name for name in names if which in name])


def one(folder: Path, name: str, fault: Fault) -> dict[str, Any]:
    """One fault, run and told."""
    stem = re.sub(r"\W+", "-", name)
    bundle, page, times = folder / stem, folder / f"{stem}.json", folder / f"{stem}.times"
    asked = ("run", "--no-ledger", "--out", str(bundle), "--json", str(page))
    words = [*DIAGNOSE, *asked, "--", sys.executable, JOB, name, str(times)]
    done = ran(words, max(min(left_s() - 3, 75), 15), env=fault.env)
    row: dict[str, Any] = {"code": done["code"], "s": done["s"], "truth": [fault.classes, fault.right]}
    if times.is_file():
        row |= timed(json.loads(times.read_text()))
    if not page.is_file():
        return row | {"failed": "no diagnosis", "err": done["err"][-800:], "out": done["out"][-800:]}
    row |= judged(diagnosis_told(page), fault, row.get("achieved"))
    row["behind / before"] = tried(behind, bundle / "capture-rank0.json") if row["class"] == "host-bound" else None
    trace, target = bundle / "rank0.json.gz", folder.parent / "reduced" / f"fault-{stem}.json.gz"
    if trace.is_file():
        target.parent.mkdir(exist_ok=True)
        row["reduced"] = tried(reduced, trace, target, SMALL_BYTES)
    return row


def behind(record: Path) -> float | None:
    """Median step behind the window, once the trace is written, over that before it; None if few were timed.

    Of jobs that wait for the host: beside a busy device the host runs ahead in the first steps.
    """
    every = json.loads(record.read_text(encoding="utf-8"))["every_step"]
    recorded = [at for at, profiled in enumerate(every["profiled"]) if profiled]
    before, later = every["ns"][STARTING : recorded[0]], every["ns"][recorded[-1] + SETTLING :]
    return round(median(later) / median(before), 3) if len(before) > 1 and len(later) > 9 else None


def timed(times: dict[str, Any]) -> dict[str, Any]:
    """What the processes measured, and the gain of the remedy."""
    slow, fast = times.get("slow", {}), times.get("fast", {})
    if "units_per_s" not in slow or "units_per_s" not in fast:
        return {"times": times}
    return {
        "times": times,
        "achieved": round(fast["units_per_s"] / slow["units_per_s"], 3),
        "probed / slow": round(times["probed"].get("step_ms", 0) / slow["step_ms"], 3),
    }


def judged(told: dict[str, Any], fault: Fault, achieved: float | None) -> dict[str, Any]:
    """What was told beside what is true."""
    promises = {rule: speedup for rule, speedup, _ in told["findings"]}
    promised = promises.get(fault.cure or next(iter(fault.right), ""))
    row = {
        "class": told["class"],
        "next": told["next"],
        "next_kind": told["next_kind"],
        "told": told,
        "promised": promised,
        "class right": told["class"] in fault.classes if fault.classes else None,
        "advice right": told["next"] in fault.right if fault.right else not told["next"],
        "among findings": any(rule in promises for rule in fault.right) if fault.right else None,
    }
    if promised and achieved is not None:
        row["inside"] = promised[0] * 0.95 <= achieved <= (promised[1] or promised[0]) * 1.05
    return row


def score(rows: dict[str, Any]) -> dict[str, Any]:
    """How many were right of those that ran."""
    known = [row for row in rows.values() if "class" in row]
    counts = {
        key: [sum(bool(row.get(key)) for row in known), sum(row.get(key) is not None for row in known)]
        for key in ("class right", "advice right", "among findings", "inside")
    }
    return {"ran": len(known), **counts}


if __name__ == "__main__":
    main()
