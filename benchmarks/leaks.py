"""Are leaks named, and is nothing said of healthy jobs? Small jobs that run for real under `diagnose run --arm`.

Each job is a loop with one thing planted. Twelve of them leak: a leak counts as named if the report tells the right
quantity and, where one is to be named, the container that holds it. Six hold more for a while and are healthy: of them
nothing may be told. `--steps` of each leak, `--healthy` of each healthy job.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE_S = 1800
LOOP = """
import ctypes, functools, gc, os, random, sys, threading, time
import torch
torch.set_num_threads(1)
STEPS, workers, persistent = int(sys.argv[1]), 0, True
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.GELU()) for _ in range(4)])
optimizer = torch.optim.AdamW(model.parameters())
class Data(torch.utils.data.Dataset):
    def __len__(self): return 32 * 100
    def __getitem__(self, at): return torch.randn(128)
data = Data()
def each(step, batch, output, loss): pass
{planted}
def train():
    step = 0
    {before}
    loader = torch.utils.data.DataLoader(
        data, batch_size=32, num_workers=workers, persistent_workers=bool(workers) and persistent)
    while step < STEPS:
        for batch in loader:
            output = model(batch)
            loss = output.square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            each(step, batch, output, loss)
            {inside}
            time.sleep(0.004)
            if step >= STEPS:
                return
train()
"""


class Job(NamedTuple):
    """A job: what is planted at the top, before the loop and in it; what grows; the name that holds it."""

    planted: str
    before: str = ""
    inside: str = ""
    grows: str = ""
    holder: str = ""


_KEPT = "kept = []\ndef each(step, batch, output, loss): kept.append({})"
_LISTED = """
class Data(Data):
    def __init__(self): self.rows = [str(at) * 3 for at in range(3_000_000)]
    def __len__(self): return 32 * 20_000
    def __getitem__(self, at):
        return torch.full((128,), float(sum(map(len, self.rows[at * 4 : at * 4 + 64]))))
data, workers = Data(), 2
"""
_CACHED = """
class Data(Data):
    cache = {}
    def __len__(self): return 32 * 20_000
    def __getitem__(self, at): return self.cache.setdefault(at, torch.randn(128 * 16))[:128]
data, workers = Data(), 2
"""
LEAKS = {
    "losses kept with their graph": Job("", "losses = []", "losses.append(loss)", "host memory", "losses"),
    "a running sum of losses": Job("", "total = 0.0", "total = total + loss", "host memory", "total"),
    "outputs kept": Job(_KEPT.format("output.detach()"), grows="host memory", holder="kept"),
    "a metric's states": Job(
        "class Metric:\n    def __init__(self): self.states = {'rows': []}\nmetric = Metric()\n"
        "def each(step, batch, output, loss): metric.states['rows'].append(output.detach().numpy().copy())",
        grows="host memory",
        holder="metric.states['rows']",
    ),
    "activations kept by a hook": Job(
        "def keep(of, seen):\n    of.register_forward_hook(lambda module, inputs, output: seen.append(output))\n"
        "keep(model[2], [])",
        grows="host memory",
    ),
    "a cache without a limit": Job(
        "@functools.lru_cache(maxsize=None)\ndef mask(step): return torch.ones(64, 128)\n"
        "def each(step, batch, output, loss): mask(step)",
        grows="host memory",
        holder="mask",
    ),
    "a list of Python objects in the workers": Job(_LISTED, grows="workers' copies"),
    "a cache in the workers": Job(_CACHED, grows="workers' memory"),
    "batches of workers kept": Job("workers = 2\n" + _KEPT.format("batch"), grows="shared memory", holder="kept"),
    "files left open": Job(_KEPT.format("open(os.devnull)"), grows="descriptors", holder="kept"),
    "threads that wait for ever": Job(
        "def each(step, batch, output, loss):\n"
        "    if step % 4 == 0: threading.Thread(target=threading.Event().wait, daemon=True).start()",
        grows="threads",
    ),
    "memory of a C library": Job(
        "libc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n"
        "def each(step, batch, output, loss): ctypes.memset(libc.malloc(ctypes.c_size_t(60_000)), 1, 60_000)",
        grows="host memory",
    ),
}
_CYCLES = """
class Cycle: pass
def each(step, batch, output, loss):
    one = Cycle()
    one.itself, one.rows = one, torch.randn(4, 1024)
    [[] for _ in range(30)]
"""
HEALTHY = {
    "a plain loop that logs its losses": Job("", "losses = []", "losses.append(loss.item())"),
    "batches of any length": Job(
        "def each(step, batch, output, loss): model(torch.randn(random.randrange(1, 400), 128)).sum().backward()"
    ),
    "workers that stay": Job("workers = 2"),
    "workers that start anew": Job("workers, persistent = 2, False"),
    "an evaluation and a checkpoint every 100 steps": Job(
        "def each(step, batch, output, loss):\n    if step % 100 == 0:\n        with torch.no_grad():\n"
        "            rows = [model(torch.randn(256, 128)) for _ in range(50)]\n"
        "        torch.save([model.state_dict(), optimizer.state_dict()], 'checkpoint.pt')"
    ),
    "cycles that the collector frees": Job(_CYCLES),
}


def told_of(job: Job, steps: int) -> dict[str, Any]:
    """What the armed run of the job says of growth."""
    with tempfile.TemporaryDirectory() as folder:
        text = LOOP.format(planted=job.planted, before=job.before or "pass", inside=job.inside or "pass")
        (Path(folder) / "train.py").write_text(text)
        command = [
            sys.executable,
            "-m",
            "diagnose",
            "run",
            "--arm",
            "--no-ledger",
            "--no-report",
            "--json",
            "told.json",
        ]
        command += ["--at-step", str(1 << 30), "--", "train.py", str(steps)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        told: dict[str, Any] = json.loads((Path(folder) / "told.json").read_text())["growth"]
        return told


def row(name: str, job: Job, steps: int) -> tuple[bool, str]:
    """Whether the job is told right, and its line of the table."""
    told = told_of(job, steps)
    names = [one["what"] for one in told["grown"]]
    first = next((one for one in told["grown"] if one["what"] == job.grows), None)
    held = "" if first is None or first["held_in"] is None else first["held_in"]["name"]
    right = (not names if not job.grows else first is not None and held == (job.holder or held)) and bool(
        told["judged"]
    )
    says = "; ".join(one["says"] for one in told["grown"]) or "nothing grows"
    return right, f"| {name} | {steps} | {says} | {held} | {'yes' if right else 'NO'} |"


def main() -> None:
    """Print the table, or write it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=500, help="of each job that leaks")
    options.add_argument("--healthy", type=int, default=2000, help="steps of each healthy job")
    options.add_argument("--only", default="", help="jobs whose name holds this")
    options.add_argument("--write", type=Path, metavar="FOLDER", help="write a dated report there")
    chosen = options.parse_args()
    lines = ["| job | steps | told | held in | right |", "|---|---|---|---|---|"]
    found = [*_rows(LEAKS, chosen.steps, chosen.only, lines), *_rows(HEALTHY, chosen.healthy, chosen.only, lines)]
    lines += ["", f"{sum(found)} of {len(found)} are told right."]
    if chosen.write:
        day = datetime.now(UTC).date().isoformat()
        heading = f"# Leaks, {day}\n\n`python benchmarks/leaks.py {' '.join(sys.argv[1:])}`\n\n"
        (chosen.write / f"leaks-{day}.md").write_text(heading + "\n".join(lines) + "\n", encoding="utf-8")


def _rows(jobs: dict[str, Job], steps: int, only: str, lines: list[str]) -> Sequence[bool]:
    found = []
    for name, job in jobs.items():
        if only in name:
            right, line = row(name, job, steps)
            print(line, flush=True)
            lines.append(line)
            found.append(right)
    return found


if __name__ == "__main__":
    main()
