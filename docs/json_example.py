"""The example of docs/json.md: the diagnosis of a bundled sample with its lists cut to their first entries."""

import json
from pathlib import Path
from typing import Any

from diagnose.analysis import analyze

SAMPLES = Path("sample_traces")  # as seen from the root of the repository, so that no machine's path is shown
ONE, JOB = SAMPLES / "synthetic-memory-bound.json.gz", SAMPLES / "synthetic-straggler"
OF_THE_JOB = ("stragglers", "postmortem", "job_timeline")
ENTRIES = {
    "files": 2,
    "measured_ranks": 8,
    "between": 2,
    "predicted_speedup": 2,
    "usual_speedup": 2,
    "cumulative_speedup": 2,
    "together": 3,
    "speedup": 2,
}
SHOWN_FACTS = ("eager_attention_share", "flash_blocked_by")
DIGITS = 4


def example() -> str:
    """The JSON as it stands in the page, ending with a newline."""
    found: dict[str, Any] = json.loads(analyze(ONE).to_json())
    job = json.loads(analyze(JOB).to_json())
    found |= {key: job[key] for key in OF_THE_JOB}
    found["facts"] = [fact for fact in found["facts"] if fact["name"] in SHOWN_FACTS]
    return json.dumps(_cut(found), indent=2, ensure_ascii=False) + "\n"


def _cut(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _cut(own, name) for name, own in value.items()}
    if isinstance(value, list):
        return [_cut(own) for own in value[: len(SHOWN_FACTS) if key == "facts" else ENTRIES.get(key, 1)]]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
