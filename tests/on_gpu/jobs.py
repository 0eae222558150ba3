"""Training jobs on a GPU, run as `diagnose run` runs them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOOP = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(64, 64, device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
x = torch.randn(64, 64, device="cuda")
def step():
    optimizer.zero_grad(set_to_none=False)
    model(x).square().mean().backward()
    optimizer.step()
def loop(steps=40):
    for _ in range(steps):
        step()
"""


def ran(
    folder: Path, body: str, *options: str, patch: Mapping[str, object] | None = None, start: str = LOOP
) -> "subprocess.CompletedProcess[str]":
    """The loop and `body` under `diagnose run`, into folder/o; its diagnosis is folder/d.json."""
    (folder / "train.py").write_text(start + body)
    if patch is not None:
        asked = [{"target": target, "set": values} for target, values in patch.items()]
        (folder / "patch.json").write_text(json.dumps(asked))
        options = (*options, "--apply", "patch.json")
    command = [sys.executable, "-m", "diagnose", "run", "--out", "o", "--json", "d.json", "--no-ledger", *options]
    return subprocess.run([*command, "--", "train.py"], cwd=folder, capture_output=True, text=True, check=False)


def record(folder: Path) -> dict[str, Any]:
    """What was recorded beside the trace."""
    found: dict[str, Any] = json.loads((folder / "o" / "capture-rank0.json").read_text())
    return found


def diagnosis(folder: Path) -> dict[str, Any]:
    """What was judged."""
    found: dict[str, Any] = json.loads((folder / "d.json").read_text())
    return found
