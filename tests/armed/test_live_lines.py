"""Figures of the steps of armed jobs without a Trainer, beside the report of their window, and what ends no job."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from needs import needs

from diagnose.analysis import analyze
from diagnose.probes.machine.now import unread
from diagnose.probes.protocol import LIVE
from diagnose.probes.reporting.live_lines import LiveLines

needs("torch")
PATIENCE_S = 400
# It trains until a line has the rates of its window, and some steps more.
JOB = """
import json, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
kind, out = sys.argv[1:]
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(256, 32), torch.nn.Linear(32, 256)
    def forward(self, ids):
        return self.head(self.embedding(ids))
vectors = kind == "vectors"
model = torch.nn.Linear(32, 256) if vectors else Model()
if kind == "ranks":
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
def sample(n):
    real = 8 + n % 9
    ids = torch.randint(0, 256, (16,))
    mask = (torch.arange(16) < real).long()
    return {"input_ids": ids, "attention_mask": mask} if kind == "padded" else torch.ones(32) if vectors else ids
data = [sample(n) for n in range(512)]
def batches():
    while True:
        yield from torch.utils.data.DataLoader(data, batch_size=4)
accumulated = 2 if kind == "accumulated" else 1
left = 300
for number, batch in enumerate(batches()):
    ids = batch["input_ids"] if isinstance(batch, dict) else batch
    (model(ids).square().mean() / accumulated).backward()
    if (number + 1) % accumulated:
        continue
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    if kind == "evaluating" and number % 50 == 0:
        with torch.no_grad():
            model.eval()
            for held_out in torch.utils.data.DataLoader(data, batch_size=64):
                model(held_out)
            model.train()
    lines = Path(out, "live.jsonl")
    last = lines.read_text().splitlines()[-1:] if number % 50 < 2 and lines.is_file() else []
    if left < 300 or any("no window has been analysed" not in line for line in last):
        left -= 1
    if not left:
        break
"""
RANKS = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
KNOWN_OF = {"tokens_per_s": "global_batch_tokens", "samples_per_s": "global_batch_samples"}


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LIVE).read_text().splitlines()]


def job(here: Path, kind: str) -> Path:
    (here / "train.py").write_text(JOB)
    options = ["run", "--arm", "--at-step", "30", "--log", "--no-report", "--out", "out", "--"]
    launcher = [sys.executable, *RANKS] if kind == "ranks" else []
    words = [sys.executable, "-m", "diagnose", *options, *launcher, "train.py", kind, "out"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DIAGNOSE_LEDGER": "off"}
    done = subprocess.run(words, cwd=here, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert "diagnose: no figures" not in done.stderr
    return here / "out"


@pytest.mark.capture
@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        "padded",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("tokens", "vectors", "accumulated", "evaluating", "ranks")
        ),
    ],
)
def test_the_figures_of_a_job_are_those_of_its_report(tmp_path: Path, kind: str) -> None:
    run = job(tmp_path, kind)
    told = lines(run)
    reported = json.loads(analyze(run / "step-30").to_json())
    facts = {fact["name"]: fact for fact in reported["facts"]}
    last = told[-1]

    for figure, fact in KNOWN_OF.items():
        if facts[fact]["value"] is None:
            assert last["unknown"][figure] == facts[fact]["because"]
        else:
            assert last[figure] * last["step_ms"] / 1e3 == pytest.approx(facts[fact]["value"], rel=1e-4)
    assert ("tokens_per_s" in last) == (kind != "vectors")
    if kind == "padded":
        real = last["real_tokens_per_s"] / last["tokens_per_s"]
        assert real == pytest.approx(1 - facts["padding_share"]["value"], rel=1e-4)
    assert last["unknown"]["mfu_percent"] == reported["mfu"]["reason"]
    assert 0 < last["goodput_percent"] <= 100
    assert last["host_memory_bytes"] > 50 << 20
    assert all(one["step"] < other["step"] for one, other in pairwise(told))
    assert not {"mfu_percent", "power_w", "sm_clock_mhz"} & last.keys()


def test_a_full_disk_is_said_once_and_then_lines_are_written_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    at = [0, 0]

    def mark() -> tuple[int, int]:
        at[0], at[1] = at[0] + 10, at[1] + 10**9
        return at[0], at[1]

    folder = tmp_path / "gone"
    telling = LiveLines(str(folder), [], mark, unread)
    for _ in range(3):
        telling._due_s = 0
        telling.turn()
    folder.mkdir()
    telling._due_s = 0
    telling.turn()

    assert capfd.readouterr().err.count(f"diagnose: no figures of the steps in {LIVE}: ") == 1
    (line,) = lines(folder)
    assert (line["step"], line["step_ms"]) == (40, 100)


def test_steps_of_a_window_are_in_no_line(tmp_path: Path) -> None:
    marks = iter([(10, 10**9), (20, 2 * 10**9), None, (40, 9 * 10**9), (50, 10 * 10**9)])
    telling = LiveLines(str(tmp_path), [], lambda: next(marks), unread)
    for _ in range(5):
        telling._due_s = 0
        telling.turn()

    assert [(line["step"], line["step_ms"]) for line in lines(tmp_path)] == [(20, 100), (50, 100)]


def test_the_longer_a_run_the_further_apart_are_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diagnose.probes.reporting import live_lines

    seconds = SimpleNamespace(now=0.0)
    monkeypatch.setattr(live_lines, "MOST", 4)
    monkeypatch.setattr(live_lines.time, "monotonic", lambda: seconds.now)
    telling = LiveLines(str(tmp_path), [], lambda: (int(seconds.now * 10) + 1, int(seconds.now * 1e9) + 1), unread)
    for second in range(100):
        seconds.now = float(second)
        telling.turn()
    apart = [later["step"] - one["step"] for one, later in pairwise(lines(tmp_path))]

    assert sorted(apart) == apart
    assert (apart[0], apart[-1]) == (20, 160)
