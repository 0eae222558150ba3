"""The workflow of docs/ci.md does what the page says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from compared_runs import SAMPLES

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
MARKED = re.compile(r"<!-- a test runs the steps of this workflow -->\n```yaml\n(.*?)```", re.DOTALL)
SAVE = next(line for line in PAGE.splitlines() if line.startswith("diagnose baseline save"))


def steps() -> list[dict[str, Any]]:
    """The steps of the one job of the workflow."""
    found = MARKED.search(PAGE)
    assert found is not None
    (job,) = yaml.safe_load(found[1])["jobs"].values()
    assert job["runs-on"] == "ubuntu-latest"
    return list(job["steps"])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the traces that the page names, and its baseline."""
    (tmp_path / "sample_traces").mkdir()
    for name in ("cpu-slow-loader.json.gz", "cpu-healthy.json.gz"):
        shutil.copy(SAMPLES / name, tmp_path / "sample_traces")
    assert run(SAVE, tmp_path).returncode == 0
    return tmp_path


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As a runner does: bash that ends at the first failure."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_every_step_of_the_workflow_that_calls_diagnose_passes(checkout: Path) -> None:
    scripts = [step["run"] for step in steps() if "diagnose " in step.get("run", "") and "pip " not in step["run"]]

    ended = [run(script, checkout) for script in scripts]

    assert len(scripts) == 2
    assert [(one.returncode, one.stderr) for one in ended] == [(0, "")] * 2
    assert (checkout / "summary.md").read_text().startswith("### B is ")


@pytest.mark.long
def test_a_slower_trace_fails_the_workflow(checkout: Path) -> None:
    traces = checkout / "sample_traces"
    shutil.copy(traces / "cpu-slow-loader.json.gz", traces / "cpu-healthy.json.gz")

    ended = run(steps()[-1]["run"], checkout)

    assert ended.returncode == 1
    assert "regression: the step takes" in ended.stderr
