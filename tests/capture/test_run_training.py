"""What `diagnose run` says of jobs that train with torch."""

import json
from pathlib import Path

import pytest
from capture.command_runs import Start, ended, script
from needs import needs

LOOP = """
import sys, time, torch
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 8 * 16
    def __getitem__(self, i):
        if {sleep_s}:
            time.sleep({sleep_s})
        return torch.ones(256)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
optimizer = torch.optim.AdamW(model.parameters())
for batch in torch.utils.data.DataLoader(Samples(), batch_size=8):
    time.sleep(0.05)  # stands for most of what a step computes: a busy machine makes a sleep hardly longer
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
raise SystemExit(5)
"""
RANKS = """
import sys, time, torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(13):
    time.sleep(0.8 if dist.get_rank() == {late} else 0.4)  # most of a step, so that a busy machine makes nobody late
    model(torch.ones(64, 512)).mean().backward()
    optimizer.step()
store = dist.distributed_c10d._get_default_store()  # of the launcher: gloo may abort a rank whose peer is already gone
store.set(f"done{dist.get_rank()}", "")
store.wait(["done0", "done1"])
dist.destroy_process_group()
"""


@pytest.mark.slow  # a machine that others use may be too busy for a verdict
def test_a_slow_loader_is_found_and_its_cure_seen(start: Start, tmp_path: Path) -> None:
    needs("torch")
    told = []
    for sleep_s in (0.025, 0):
        train = script(tmp_path, LOOP.format(sleep_s=sleep_s))
        code, _, err = ended(start("--at-step", 8, "--json", "d.json", "--", train))
        assert code == 5, err
        told.append(json.loads((tmp_path / "d.json").read_text())["verdict"]["class"] == "data-bound")

    assert told == [True, False]


@pytest.mark.slow
def test_the_late_rank_of_torchrun_is_named_and_nobody_in_the_healthy_twin(start: Start, tmp_path: Path) -> None:
    needs("torch")
    named = []
    for late in (1, None):
        train = script(tmp_path, RANKS.format(late=late))
        launched = ["torchrun", "--standalone", "--nproc_per_node=2", train]
        code, _, err = ended(start("--steps", 4, "--at-step", 6, "--json", "d.json", "--", *launched))
        assert code == 0, err
        named.append([late["rank"] for late in json.loads((tmp_path / "d.json").read_text())["stragglers"]])

    assert named == [[1], []]
