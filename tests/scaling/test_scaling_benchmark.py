"""The benchmark of extrapolation: the largest size of each job, told from the smaller ones alone."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_range_holds_the_largest_size_of_both_jobs_of_the_ladder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fitting.scaling", "benchmarks/ladder.csv", "--write", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "benchmarks")}
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment).stdout
    (written,) = tmp_path.glob("scaling-*.md")
    assert written.read_text() == printed
    jobs, held = (int(cell) for cell in printed.splitlines()[-1].split("|")[2:4])
    assert jobs == held == 2
