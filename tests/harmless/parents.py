"""Commands as they are without us, and below `diagnose run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PATIENCE_S = 300
DIAGNOSE = (sys.executable, "-m", "diagnose", "run")
TRACE = Path(__file__).parents[2] / "sample_traces" / "cpu-slow-loader.json.gz"

# A rank as the parent sees it, without torch: `write(rank)` leaves what a finished window leaves.
RANK = f"""
import json, os, shutil, sys
given = json.loads(os.environ["PYTHON_DIAGNOSE"])
def write(rank=0, world_size=1, error=None, trace=True, out=given["out"], token=given["token"]):
    os.makedirs(out, exist_ok=True)
    name = f"rank{{rank}}.json.gz" if trace else None
    if trace:
        shutil.copy({str(TRACE)!r}, os.path.join(out, name))
    marker = {{"rank": rank, "world_size": world_size, "trace": name, "capture": None, "error": error, "token": token}}
    with open(os.path.join(out, f"rank{{rank}}.done"), "w") as file:
        json.dump(marker, file)
"""


def ended(command: list[str], folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run it in `folder` with nothing on stdin."""
    settings: dict[str, Any] = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL} | options
    return subprocess.run(command, cwd=folder, check=False, timeout=PATIENCE_S, **settings)


def below(command: list[str], *options: object) -> list[str]:
    """The command below `diagnose run OPTIONS`."""
    return [*DIAGNOSE, *map(str, options), "--", *command]


def python(folder: Path, body: str, name: str = "train.py") -> list[str]:
    """A command that runs `body` as a script of `folder`."""
    (folder / name).write_text(body)
    return [sys.executable, name]


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would make one run differ from another."""
    left_out = ("PYTHONPATH", "PYTHON_DIAGNOSE", "PYTHON_DIAGNOSE_SEEN", "COV_CORE_SOURCE", "COVERAGE_PROCESS_START")
    return {name: text for name, text in os.environ.items() if name not in left_out} | more
