"""What a tune came to, short: each run with its change, what was promised and measured. tune_told.py FOLDER"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kit import diagnosis_told, tell, tried

KEPT = (
    "number", "rule", "change", "outcome", "decision", "because", "predicted", "achieved", "total", "measured",
    "seconds", "repeats",
)  # fmt: skip


def main() -> None:
    """Tell the tune in the folder."""
    folder = Path(sys.argv[1])
    page = json.loads((folder / "tune.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = {"rungs": [{key: rung.get(key) for key in KEPT} for rung in page["rungs"]]}
    found |= {"why_ended": page.get("why_ended"), "patch": page.get("patch")}
    found["left"] = [[each["rule"], each["because"], each.get("predicted")] for each in page.get("left", [])]
    found["runs"] = {path.stem: tried(diagnosis_told, path) for path in sorted(folder.glob("run-*.json"))}
    ladder = folder / "ladder.csv"
    found["ladder"] = ladder.read_text(encoding="utf-8") if ladder.is_file() else None
    tell(found)


if __name__ == "__main__":
    main()
