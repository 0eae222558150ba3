"""Real runs of jobs whose loader is the cause: what a run and `diagnose data` say of them on any machine.

Other processes may take the cores meanwhile, so each test asks only for what holds then, too.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from needs import needs

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

needs("torch")
pytestmark = [pytest.mark.capture, pytest.mark.slow]
JOBS = Path(__file__).parent / "jobs"
PATIENCE_S = 300  # longer than any busy machine needs
DIAGNOSE = (sys.executable, "-m", "diagnose")


def ran(folder: Path, *job: str) -> Diagnosis:
    """The diagnosis of a run of the job."""
    asked = ("run", "--no-ledger", "--stop", "--out", "capture", "--", sys.executable, str(JOBS / job[0]), *job[1:])
    subprocess.run((*DIAGNOSE, *asked), cwd=folder, check=True, timeout=PATIENCE_S, capture_output=True)
    return analyze(folder / "capture")


def measured(folder: Path, *job: str) -> Any:
    """What `diagnose data` says of the job's workers."""
    asked = ("data", "--seconds", "4", "--json", "--", sys.executable, str(JOBS / job[0]), *job[1:])
    done = subprocess.run((*DIAGNOSE, *asked), cwd=folder, check=True, timeout=PATIENCE_S, capture_output=True)
    return msgspec.json.decode(done.stdout)["workers"]


def fact(said: Diagnosis, name: str) -> Any:
    return next(each.value for each in said.facts if each.name == name)


def advised(said: Diagnosis) -> dict[str, Any]:
    """All settings of all findings."""
    return {key: value for each in said.findings if each.patch for key, value in each.patch.set.items()}


def of_finding(said: Diagnosis, rule: str) -> str:
    return " ".join(next((each.do for each in said.findings if each.rule == rule), "").split())


def test_the_starts_of_epochs_are_named_and_kept_workers_are_their_cure(tmp_path: Path) -> None:
    said, told = ran(tmp_path, "workers_start_each_epoch.py"), measured(tmp_path, "workers_start_each_epoch.py")
    finding = next(each for each in said.findings if each.rule == "workers-started-each-pass")

    assert finding.severity == "critical"
    assert "13, 25, 37" in finding.do
    assert advised(said)["persistent_workers"] is True
    assert "num_workers" not in advised(said)
    assert fact(said, "worker_start_ns") > 1.4e9
    assert "persistent_workers=True" in told["first"]


def test_workers_that_share_a_core_are_to_be_unbound(tmp_path: Path) -> None:
    said, told = ran(tmp_path, "workers_bound_to_a_core.py"), measured(tmp_path, "workers_bound_to_a_core.py")

    assert fact(said, "loader_worker_cores") == 1
    assert fact(said, "loader_bound") != "io"
    assert "num_workers" not in advised(said)
    if fact(said, "cores_per_rank") > 1:
        assert fact(said, "loader_workers_bound") is True
        assert "sched_setaffinity" in told["first"]
    assert "disk, network or a timer" not in of_finding(said, "data-wait")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_passes_of_two_batches_get_no_workers(workers: str, tmp_path: Path) -> None:
    said, told = ran(tmp_path, "short_epochs.py", workers), measured(tmp_path, "short_epochs.py", workers)

    assert fact(said, "batches_per_pass") == 2
    assert "num_workers" not in advised(said)
    assert "diagnose run" not in of_finding(said, "data-wait")
    assert told["refused"].startswith("2 batches per pass")


def test_samples_that_come_three_times_are_told_without_a_training_loop(tmp_path: Path) -> None:
    asked = (*DIAGNOSE, "data", "--", sys.executable, str(JOBS / "repeated_samples.py"))
    done = subprocess.run(asked, cwd=tmp_path, timeout=PATIENCE_S, capture_output=True, text=True)

    assert done.returncode == 3
    assert "each of the 3 workers gives every sample: all come 3 times" in " ".join(done.stderr.split())
