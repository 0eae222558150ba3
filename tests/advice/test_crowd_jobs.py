"""Real runs of jobs whose threads or workers want more cores than there are: what a run shows on any machine.

Other processes may take the cores meanwhile, so each test asks only for what holds then, too.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from diagnose.analysis import analyze
from diagnose.attribution.causes import CORE_WAIT
from diagnose.diagnosis import Diagnosis

pytestmark = [
    pytest.mark.capture,
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel counts no waiting for cores"),
]
JOBS = Path(__file__).parent / "jobs"
PATIENCE_S = 300  # longer than any busy machine needs
TWO_RANKS = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def run(folder: Path, *command: str, **env: str) -> tuple[Diagnosis, list[dict[str, list[int]]]]:
    """The diagnosis of the job, and the record of each rank's steps."""
    out = folder / "bundle"
    asked = ["run", "--no-ledger", "--stop", "--out", str(out), "--", sys.executable, *command]
    subprocess.run(
        [sys.executable, "-m", "diagnose", *asked], cwd=folder, env={**os.environ, **env}, check=True,
        capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    records = [json.loads(path.read_text())["steps"] for path in sorted(out.glob("capture-rank*.json"))]
    return analyze(out), records


def facts(found: Diagnosis) -> dict[str, object]:
    return {fact.name: fact.value for fact in found.facts}


def waiting(found: Diagnosis) -> float:
    return sum(entry.share for entry in found.ledger if entry.cause == CORE_WAIT)


def test_two_ranks_of_sixteen_threads(tmp_path: Path) -> None:
    found, records = run(tmp_path, *TWO_RANKS, str(JOBS / "omp.py"), T="16")

    assert len(records) == 2
    for steps in records:
        assert len(steps["active_core_wait_ns"]) == len(steps["active_ns"])
        assert all(each >= 0 for each in steps["active_core_wait_ns"])
        assert all(each > 0 for each in steps["active_cpu_ns"])
    assert 0 < waiting(found) < 1
    assert sum(entry.ns for entry in found.ledger) == found.steps.time_ns
    assert str(facts(found)["core_demand"]).startswith("2 ranks of 16 threads on ")
    assert isinstance(facts(found)["others_cpu_share"], float)
    if facts(found)["crowded_by"] == "job" and waiting(found) >= 0.2:
        assert found.next.rule == "starved-host"
        assert found.next.do.startswith("Call torch.set_num_threads(")


def test_a_process_that_binds_itself_to_one_core(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core to be had")
    found, _ = run(tmp_path, str(JOBS / "affinity.py"), "--main")

    told = facts(found)
    assert (told["cores_usable"], told["bound_within_job"]) == (1, True)
    assert " and 4 loader workers on 1 of the host's " in str(told["core_demand"])
    if (starved := next((f for f in found.findings if f.rule == "starved-host"), None)) is not None:
        assert starved.do.startswith("Find out what has bound the process to 1 of the host's ")
