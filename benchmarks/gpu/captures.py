"""The captures so far: what each says, what the next form reached of what was predicted, and the small traces.

captures.py WORK: reads WORK/captures/*.json and their bundles, writes WORK/reduced/*.json.gz.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kit import DIAGNOSE, diagnosis_told, ran, tell, tried
from reduce import reduced

PAIRS = (  # before, after, what was changed between them
    ("eager", "sdpa", ("unfused-attention", "attention-off-flash-path")),
    ("sdpa", "sdpa-liger", ("unfused-loss", "unfused-norm", "unfused-glu", "unfused-rope")),
    ("sdpa", "compiled", ("unfused-elementwise", "launch-bound")),
)
KEPT = (
    "steps",
    "overhead_factor",
    "memory",
    "error",
    "device",
    "versions",
    "recording",
    "machine",
    "profiler",
    "liger",
)
SERIES = ("control_before_ns", "warmup_ns", "active_ns", "control_after_ns")


def main() -> None:
    """Tell each capture, then the pairs."""
    work, found = Path(sys.argv[1]), {}
    (work / "reduced").mkdir(exist_ok=True)
    for page in sorted((work / "captures").glob("*.json")):
        found[page.stem] = told(page, work / "reduced" / f"{page.stem}.json.gz")
        tell(found)
    there = [pair for pair in PAIRS if pair[0] in found and pair[1] in found]
    found["predicted and achieved"] = [tried(held, found, *pair) for pair in there]
    tell(found)


def told(page: Path, small: Path) -> dict[str, Any]:
    """What the diagnosis says, what the record holds, and what is left of the trace when it is small."""
    bundle = page.with_suffix("")
    of: dict[str, Any] = {"told": tried(diagnosis_told, page), "record": tried(record, bundle)}
    steps = of["record"].get("steps") or {}
    of["ms"] = {key: middle_ms(steps.get(key) or []) for key in SERIES}
    trace = bundle / "rank0.json.gz"
    if trace.is_file() and not small.is_file():
        of["reduced"] = tried(reduced, trace, small)
        again = ran([*DIAGNOSE, "analyze", str(small), "--no-cache", "--json"], 60, most=20_000_000)
        said = tried(json.loads, again["out"])
        of |= {"reduced_says": said.get("verdict", {}).get("class"), "reduced_next": said.get("next", {}).get("rule")}
    return of


def record(bundle: Path) -> dict[str, Any]:
    """What stands in the capture's record."""
    page = json.loads((bundle / "capture-rank0.json").read_text(encoding="utf-8"))
    return {key: page.get(key) for key in KEPT}


def middle_ms(values: list[int]) -> float | None:
    """The median, in milliseconds."""
    ordered = sorted(value for value in values if value)
    return ordered[len(ordered) // 2] / 1e6 if ordered else None


def held(found: dict[str, Any], before: str, after: str, rules: tuple[str, ...]) -> dict[str, Any]:
    """The gain of the change by the steps without the profiler, and what the rules promised of it together."""
    old, new = (
        found[name]["ms"]["control_before_ns"] or found[name]["ms"]["control_after_ns"] for name in (before, after)
    )
    promises = [(rule, speedup) for rule, speedup, _ in found[before]["told"]["findings"] if rule in rules and speedup]
    low = high = 1.0
    for _, (least, most) in promises:  # each is of the step as it is: what they save adds up
        low = 1 / (1 / low - (1 - 1 / least))
        high = 1 / max(1 / high - (1 - 1 / (most or least)), 1e-3)
    achieved = old / new
    return {
        "before": before,
        "after": after,
        "rules": [rule for rule, _ in promises],
        "promised": [round(low, 3), round(high, 3)],
        "achieved": round(achieved, 3),
        "inside": low * 0.97 <= achieved <= high * 1.03,
    }


if __name__ == "__main__":
    main()
