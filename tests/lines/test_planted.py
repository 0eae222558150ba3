"""Slow functions planted in training jobs are found with their file, line and function, and with their time."""

import json
from pathlib import Path
from typing import Any

import pytest
from capture.bundles import facts
from capture.scripts import BARE, TRAINER, run
from needs import needs
from noisy import noisy

needs("torch")
pytestmark = [pytest.mark.capture, pytest.mark.long]

FOUND = 0.8  # of its time at least, but for what chance does to so few samples
BUSY = """
import atexit, functools, io, json, sys, time
spans = []
def timed(function):
    @functools.wraps(function)
    def within(*args, **kwargs):
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spans.append((function.__name__, began, time.perf_counter()))
    return within
def step_ended():
    spans.append(("", time.perf_counter(), 0))
def keep():
    with open(sys.argv[1] + "/spans.json", "w") as file:
        json.dump(spans, file)
atexit.register(keep)
def words(count):
    return " ".join(str(each * 7919 % 10007) for each in range(count))
@timed
def collate(rows):
    for row in rows:
        text = words(150_000)  # HERE collate
    return torch.utils.data.default_collate(rows)
@timed
def accuracy(outputs):
    return sum(value.item() > 0 for value in outputs)  # HERE accuracy
@timed
def log(number):
    json.dump(list(range(number)), io.StringIO())  # HERE log
"""
BARE_LOOP = (
    BARE
    + BUSY
    + """
outputs = torch.randn(40_000)
rows = loader(100, collate_fn=collate)
for batch, in rows:
    model(batch).square().mean().backward()
    accuracy(outputs)
    log(100_000)
    optimizer.zero_grad()
    step_ended()
    optimizer.step()
"""
)
ACCELERATE = (
    BARE
    + BUSY
    + """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
outputs = torch.randn(40_000)
model, optimizer, rows = accelerator.prepare(model, optimizer, loader(100, collate_fn=collate))
for batch, in rows:
    accelerator.backward(model(batch).square().mean())
    accuracy(outputs)
    log(100_000)
    optimizer.zero_grad()
    step_ended()
    optimizer.step()
"""
)
TRANSFORMERS = (
    TRAINER
    + BUSY
    + """
from transformers import TrainerCallback, default_data_collator
torch.utils.data.default_collate = default_data_collator
outputs = torch.randn(40_000)
class Slow(Trainer):
    def compute_loss(self, *args, **kwargs):
        accuracy(outputs)
        return super().compute_loss(*args, **kwargs)
class Logs(TrainerCallback):
    def on_step_end(self, *args, **kwargs):
        log(100_000)
        step_ended()
slow = trainer(Slow, max_steps=100, gradient_accumulation_steps=1, logging_strategy="no", save_strategy="no")
slow.data_collator = collate
slow.add_callback(Logs())
slow.train()
"""
)
LIGHTNING = (
    BARE
    + BUSY
    + """
import lightning
outputs = torch.randn(40_000)
class Slow(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = model
    def training_step(self, batch, _):
        accuracy(outputs)
        return self.model(batch[0]).square().mean()
    def configure_optimizers(self):
        return optimizer
class Logs(lightning.Callback):
    def on_before_optimizer_step(self, *args, **kwargs):
        step_ended()
    def on_train_batch_end(self, *args, **kwargs):
        log(100_000)
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = lightning.Trainer(max_steps=100, accelerator="cpu", callbacks=[Logs()], **quiet)
trainer.fit(Slow(), loader(100, collate_fn=collate))
"""
)


def shares(spans: list[list[Any]], first: int, steps: int) -> dict[str, float]:
    """The share of each function of the time of these steps, as the job itself has measured it."""
    ends = [began for name, began, _ in spans if not name]
    begin, end = ends[first - 2], ends[first - 2 + steps]
    inside = [(name, ended - began) for name, began, ended in spans if name and begin <= began < end]
    return {name: sum(took for other, took in inside if other == name) / (end - begin) for name, _ in inside}


@pytest.mark.parametrize(
    ("script", "library"),
    [
        pytest.param(BARE_LOOP, "torch", id="bare loop"),
        pytest.param(ACCELERATE, "accelerate", id="Accelerate", marks=pytest.mark.slow),
        pytest.param(TRANSFORMERS, "transformers", id="Trainer", marks=pytest.mark.slow),
        pytest.param(LIGHTNING, "lightning", id="Lightning"),
    ],
)
@noisy
def test_a_slow_function_is_named_with_its_time(script: str, library: str, tmp_path: Path) -> None:
    needs(library)
    done = run(script, tmp_path, {"skip": 2, "control": 1, "stop": True})

    assert done.returncode == 0, done.stderr
    found = facts(tmp_path / "out")["stack_samples"]
    took = shares(json.loads((tmp_path / "spans.json").read_text()), found["first_step"], found["steps"])
    for name, share in took.items():
        stacks = [stack for stack in found["stacks"] if _within(stack, name)]
        chance = 2 * (share * (1 - share) / found["samples"]) ** 0.5
        seen = sum(stack["samples"] for stack in stacks) / found["samples"]
        assert seen >= FOUND * share - chance, (name, share, found)
        file, line, _ = next(frame for frame in stacks[0]["frames"] if frame[2] == name)
        assert Path(file).name == "script.py"
        assert script.splitlines()[line - 1].endswith(f"# HERE {name}")
    assert {stack["doing"] for stack in found["stacks"] if _within(stack, "collate")} == {"loading"}
    assert {stack["calls"] for stack in found["stacks"] if _within(stack, "accuracy")} >= {"item"}
    assert found["cost_ms"] < 0.02 * found["wall_ms"]


def _within(stack: dict[str, Any], function: str) -> bool:
    return any(name == function for _, _, name in stack["frames"])
