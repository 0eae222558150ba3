"""Training scripts to tune, and `diagnose tune` as a user starts it."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

from diagnose.commands.tune.answer import Tuning
from diagnose.commands.tune.state import TuneFolder

PATIENCE_S = 240

SLOW_LOADER = """
import time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 240
    def __getitem__(self, i):
        time.sleep(0.03)
        return torch.ones(4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
total = 0.0
def train():
    global total
    for batch in torch.utils.data.DataLoader(Slow(), batch_size=4):
        loss = model(batch).mean()
        time.sleep(0.005)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
"""
SAYS_ITS_ID = "import os\nprint(os.getpid(), flush=True)\n"
HEALTHY = """
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(768, 768, bias=False) for _ in range(3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
batch = torch.randn(512, 768)
for step in range(60):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def started(folder: Path, body: str, *options: str, **more: Any) -> "subprocess.Popen[str]":
    """`diagnose tune OPTIONS -- train.py` in the folder, of a script with this body."""
    (folder / "train.py").write_text(textwrap.dedent(body))
    command = [sys.executable, "-m", "diagnose", "tune", "--out", "tune", "--at-step", "8", *options]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder}
    ours = {"COLUMNS": "200", "DIAGNOSE_LEDGER": "on", "DIAGNOSE_DATA_DIR": str(folder / "data")}
    return subprocess.Popen([*command, "--", "train.py"], env={**os.environ, **ours}, **{**pipes, **more})


def job_of(folder: Path, process: "subprocess.Popen[str]") -> int:
    """The process id of the job's first run, which says it."""
    log = folder / "tune" / "run-0.log"
    while not (log.exists() and log.read_text().endswith("\n")) and process.poll() is None:
        time.sleep(0.05)
    return int(log.read_text().split()[0])


def ended(process: "subprocess.Popen[str]", code: int = 0) -> str:
    """What a tune prints on stdout, once it has ended with the code."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, err
    return out


def climbed(folder: Path) -> Tuning:
    """What is kept of the tune."""
    tuning = TuneFolder(folder / "tune").read()
    assert tuning is not None
    return tuning
