"""An armed job whose disk is full: its first window shows that, and it opens no other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs

needs("torch")
pytestmark = [pytest.mark.capture, pytest.mark.long]

JOB = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(120):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 5:
        {fault}
print("trained")
"""
FULL = "def full(*args, **more): raise OSError(28, 'No space left on device')"
FAULTS = {
    "no space for the trace": f"{FULL}\n        import gzip; gzip.open = full",
    "the exporter's file is cut": (
        "def cut(self, path, *args): open(path, 'w').write('{\"traceEvents\": [{\"na')\n"
        "        torch.profiler.profile.export_chrome_trace = cut"
    ),
    "no space for a folder": f"{FULL}\n        import os, tempfile; os.mkdir = tempfile.mkdtemp = full",
}


@pytest.mark.parametrize(
    ("fault", "options"), [*((fault, ()) for fault in FAULTS), ("no space for the trace", ("--no-report",))]
)
def test_no_further_window_opens_and_none_is_said_to_be_captured(
    fault: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(JOB.format(fault=FAULTS[fault]))
    asked = ("run", "--arm", "--every", "20", "--out", "o", *options, "--", "train.py")
    done = subprocess.run(
        [sys.executable, "-m", "diagnose", *asked],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("diagnose:")]

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "trained"), done.stderr
    assert sum("no more windows open" in line for line in said) == 1, done.stderr
    assert len(list((tmp_path / "o").glob("step-*"))) <= 1
    assert not any("captured into" in line for line in said)
    assert "no trace" in said[-1] or "without a trace" in said[-1] or "no window holds a trace" in said[-1], said
