"""On a real GPU: what `test_cuda_paths` shows without one. `nox -s gpu` runs these."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs

needs("torch")
pytestmark = pytest.mark.gpu

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
"""
CAPTURED = """
side = torch.cuda.Stream()
for number in range(1, 41):
    if number == {at}:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            step()
        graph.replay()
        torch.cuda.synchronize()
    else:
        with torch.cuda.stream(side):
            step()
print("trained", torch.isfinite(model.weight).all().item())
"""


def ran(folder: Path, body: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """The loop and `body` under `diagnose run`, into folder/o."""
    (folder / "train.py").write_text(LOOP + body)
    command = [sys.executable, "-m", "diagnose", "run", "--no-report", "--out", "o", *options, "--", "train.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("at", [4, 5, 7, 8, 10])
def test_a_graph_that_the_job_captures_in_any_phase_of_the_window_is_its_own(at: int, tmp_path: Path) -> None:
    done = ran(tmp_path, CAPTURED.format(at=at), "--at-step", "8")

    assert (done.returncode, done.stdout) == (0, "trained True\n"), done.stderr
    steps = json.loads((tmp_path / "o" / "capture-rank0.json").read_text())["steps"]
    assert steps["clock"] == "device"


def test_memory_leaves_a_snapshot(tmp_path: Path) -> None:
    done = ran(tmp_path, "for _ in range(40):\n    step()\nprint('trained')\n", "--memory")

    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert (tmp_path / "o" / "memory-rank0.pickle").stat().st_size > 0
    assert "nothing to record" not in done.stderr


def test_the_precision_and_the_drivers_facts_are_in_the_record(tmp_path: Path) -> None:
    body = (
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'\nfor _ in range(40):\n    step()\n"
        if _has_newer_words()
        else "torch.set_float32_matmul_precision('high')\nfor _ in range(40):\n    step()\n"
    )
    ran(tmp_path, body)
    known = json.loads((tmp_path / "o" / "capture-rank0.json").read_text())

    assert known["torch_settings"]["float32_matmul_precision"] == "high"
    assert known["device"]["nvml"]["sm_clock_max_mhz"] > 0


def _has_newer_words() -> bool:
    import torch

    return hasattr(torch.backends.cuda.matmul, "fp32_precision")
