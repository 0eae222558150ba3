"""From end to end on a CPU: a diagnosis foretells what a change buys, `--apply` makes it, and the gain is there."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import needs

pytestmark = pytest.mark.slow

TRAIN = """
import time, torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
torch.set_num_threads(1)
config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                     intermediate_size=32, vocab_size=64)
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, i):
        time.sleep(0.005)
        return {"input_ids": torch.arange(8), "labels": torch.arange(8)}
class Computing(Trainer):
    def compute_loss(self, *args, **kwargs):
        time.sleep(0.06)
        return super().compute_loss(*args, **kwargs)
args = TrainingArguments(output_dir="o", max_steps=40, per_device_train_batch_size=8, report_to=[], disable_tqdm=True,
                         use_cpu=True, save_strategy="no")
Computing(model=LlamaForCausalLM(config), args=args, train_dataset=Samples()).train()
"""


def run(folder: Path, name: str, *options: str) -> dict[str, Any]:
    """The diagnosis that `diagnose run` writes."""
    command = [
        sys.executable,
        "-m",
        "diagnose",
        "run",
        "--out",
        name,
        "--json",
        f"{name}.json",
        "--at-step",
        "12",
        "--steps",
        "6",
    ]
    done = subprocess.run(
        [*command, *options, "--", "train.py"], cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads((folder / f"{name}.json").read_text()))


def data_share(diagnosis: dict[str, Any]) -> float:
    return sum(entry["share"] for entry in diagnosis["ledger"] if entry["class"] == "data")


def step_ns(diagnosis: dict[str, Any]) -> float:
    return diagnosis["steps"]["time_ns"] / diagnosis["steps"]["count"]


def test_the_planned_change_takes_the_wait_for_data_away(tmp_path: Path) -> None:
    needs("accelerate")
    (tmp_path / "train.py").write_text(TRAIN)

    before = run(tmp_path, "before")
    after = run(tmp_path, "after", "--apply", "before.json")

    (loading,) = (step for step in before["plan"] if step["rule"] == "data-wait")
    (found,) = (finding for finding in before["findings"] if finding["rule"] == "data-wait")
    low, high = found["predicted_speedup"]
    achieved = step_ns(before) / step_ns(after)
    print(f"predicted {low:.2f}-{high:.2f}x, achieved {achieved:.2f}x; data {data_share(before):.0%} to "
          f"{data_share(after):.0%} of the step")  # fmt: skip
    assert loading == next(step for step in before["plan"] if step["patch"])  # what only code can change may come first
    assert before["replay"]["valid"]
    assert data_share(before) > 0.3
    assert data_share(after) < 0.2
    record = json.loads((tmp_path / "after" / "capture-rank0.json").read_text())
    assert record["applied"] == {"training_arguments": loading["patch"]["set"]}
    assert record["refused"] == []
