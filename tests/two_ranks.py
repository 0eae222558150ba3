"""The diagnosis of a real job of two ranks over gloo."""

import os
import subprocess
import sys
from pathlib import Path

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Finding

JOBS = Path(__file__).parent / "ranks" / "jobs"
PATIENCE_S = 300  # longer than any busy machine needs
LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def diagnosed(folder: Path, job: str, *arguments: str) -> Diagnosis:
    """Run the job of that name under `diagnose run`, and read what it leaves."""
    out = folder / "bundle"
    asked = ["run", "--no-ledger", "--stop", "--out", str(out), "--", sys.executable, *LAUNCHER, str(JOBS / job)]
    subprocess.run(
        [sys.executable, "-m", "diagnose", *asked, *arguments], cwd=folder, env=dict(os.environ), check=True,
        capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    return analyze(out)


def fact(found: Diagnosis, name: str) -> object:
    return next(each.value for each in found.facts if each.name == name)


def of_communication(found: Diagnosis) -> list[Finding]:
    return [each for each in found.findings if each.class_ == "communication"]
