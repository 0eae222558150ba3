"""The analysis beside a training ends with the job, however that ends, and where nobody waits for it any more."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diagnose.probes.reporting import analysis, report

# A job that is gone as soon as its analysis has begun, or runs, which would go on for ever.
JOB = """
import os, sys, time
from pathlib import Path
from diagnose.probes.reporting import analysis
runs = Path(sys.argv[1])
for_ever = f"open({str(runs)!r}, 'w').close(); import time; time.sleep(1e6)"
analysis._PROGRAM = analysis._PROGRAM.partition("runpy.run_module")[0] + for_ever
def begun(process):
    os.write(1, b"%d" % process.pid)
    while sys.argv[2] == "runs" and not runs.exists():
        time.sleep(0.01)
    os._exit(0)
analysis.analysed(Path("none"), begun)
"""


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one above it")
@pytest.mark.parametrize("until", ["begins", "runs"])
def test_the_analysis_does_not_outlive_the_job(tmp_path: Path, until: str) -> None:
    job = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path / "runs"), until], capture_output=True, check=True, timeout=300
    )
    pid = int(job.stdout)
    for _ in range(6000):
        if has_ended(pid):
            break
        time.sleep(0.01)

    assert has_ended(pid)


def test_an_analysis_that_training_does_not_wait_for_is_ended_and_not_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It begins to run only after it was given up: the thread beside comes late."""
    killed, calls = list[str](), list[Any]()

    class Later:
        def __init__(self, run: Any) -> None:
            calls.append(run)

        def stop(self, within_s: float) -> bool:
            return False

    monkeypatch.setattr(analysis, "SideThread", Later)
    window = SimpleNamespace(rank=0, world_size=1, folder=tmp_path)
    telling = report.Report(SimpleNamespace(outcome=SimpleNamespace(written=[])))  # type: ignore[arg-type]
    telling._session.outcome.written.append(window)  # type: ignore[arg-type]
    telling.look()
    begun = telling.windows.analysis
    assert begun is not None
    begun._begun(SimpleNamespace(kill=lambda: killed.append("running")))  # type: ignore[arg-type]
    telling.ends()
    begun._begun(SimpleNamespace(kill=lambda: killed.append("late")))  # type: ignore[arg-type]
    telling.ends()

    assert killed == ["running", "late"]
    assert capfd.readouterr().err.count("training ended before the window was analysed") == 1
