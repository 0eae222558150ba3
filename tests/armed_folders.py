"""Folders of armed runs as the probes leave them: a step log for each rank, and windows with sample traces."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

SAMPLES = Path(__file__).parents[1] / "sample_traces"
STEPS = 40


def armed_folder(
    folder: Path, windows: Sequence[int], sample: str = "cpu-healthy.json.gz", ranks: int = 1, slow: int | None = None
) -> Path:
    """A run of one host whose windows begin at the given steps, each with the sample as what its ranks recorded."""
    folder.mkdir()
    for rank in range(ranks):
        begins = {"armed": 1, "pid": 1, "t": 1.0, "rank": rank, "world_size": ranks, "done": 0, "host": "n1"}
        steps = {"s": 1, "us": [10_000] * STEPS, "t": 2.0}
        told = [event for first in windows for event in _window(first, slow)]
        lines = [begins, steps, *told, {"what": "end", "t": 3.0, "why": "the process ended", "lost": 0}]
        (folder / f"rank{rank}.steps").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for first in windows:
            window = folder / f"step-{first}"
            window.mkdir(exist_ok=True)
            source = SAMPLES / sample
            shutil.copy(source / f"rank{rank}.json.gz" if source.is_dir() else source, window / f"rank{rank}.json.gz")
    return folder


def _window(first: int, slow: int | None) -> list[dict[str, object]]:
    opened = {"what": "window", "t": 2.0, "first": first, "why": f"asked for by --at-step {first}"}
    closed = {"what": "closed", "t": 2.5, "first": first, "folder": f"step-{first}", "error": None, "slow": slow}
    return [opened, closed]
