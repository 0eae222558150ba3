"""Figures of the steps in the logs of Accelerate's trackers and Lightning's loggers, in real armed jobs."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs

from diagnose.probes.protocol import LIVE
from diagnose.probes.reporting.log_calls import _taken, offer

needs("torch")
FIGURES = {"diagnose/live_step_ms", "diagnose/live_waiting_percent", "diagnose/live_goodput_percent"}
# Both train until a log has had figures, for a minute at most, and fail where figures come into what is the job's own.
ACCELERATE = """
import json, time, torch
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker
class Lines(GeneralTracker):
    name, requires_logging_directory, tracker = "lines", False, None
    def store_init_configuration(self, values):
        pass
    def log(self, values, step=None, **_):
        logged.append({"step": step, **values})
logged = []
accelerator = Accelerator(cpu=True, log_with=Lines())
accelerator.init_trackers("job")
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.DataLoader(torch.randn(400, 64), batch_size=8)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
step, until = 0, time.monotonic() + 60
while not any(len(line) > 2 for line in logged) and time.monotonic() < until:
    for batch in data:
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        time.sleep(0.005)
        values = {"loss": loss.item()}
        accelerator.log(values, step=step)
        assert list(values) == ["loss"]
print(json.dumps(logged))
"""
LIGHTNING = """
import time, torch, lightning
from lightning.pytorch.loggers import CSVLogger
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.until = torch.nn.Linear(64, 64), time.monotonic() + 20
    def training_step(self, batch, number):
        time.sleep(0.005)
        loss = self.layer(batch).square().mean()
        self.log("loss", loss)
        return loss
    def on_train_batch_end(self, *_):
        assert not [name for name in self.trainer.logged_metrics if name.startswith("diagnose")]
        self.trainer.should_stop = time.monotonic() > self.until
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
data = torch.utils.data.DataLoader(torch.randn(400, 64), batch_size=8)
lightning.Trainer(
    max_epochs=1000, accelerator="cpu", logger=CSVLogger("logs"), enable_checkpointing=False,
    enable_progress_bar=False, log_every_n_steps=10,
).fit(Module(), data)
"""


def armed(here: Path, script: str) -> str:
    (here / "train.py").write_text(script)
    options = ["run", "--arm", "--log", "--no-report", "--out", "out", "--"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DIAGNOSE_LEDGER": "off"}
    words = [sys.executable, "-m", "diagnose", *options, sys.executable, "train.py"]
    done = subprocess.run(words, cwd=here, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "get no figures" not in done.stderr
    assert (here / "out" / LIVE).is_file()
    return done.stdout


@pytest.mark.capture
@pytest.mark.long
def test_accelerates_trackers_get_the_figures_in_the_jobs_own_calls(tmp_path: Path) -> None:
    needs("accelerate")
    found = next(line for line in armed(tmp_path, ACCELERATE).splitlines() if line.startswith("[{"))

    with_figures = [line for line in json.loads(found) if line.keys() > FIGURES]
    assert with_figures
    assert all({"step", "loss"} < line.keys() for line in with_figures)


@pytest.mark.capture
@pytest.mark.long
def test_lightnings_loggers_get_the_figures_and_the_trainer_does_not(tmp_path: Path) -> None:
    needs("lightning")
    armed(tmp_path, LIGHTNING)
    (file,) = (tmp_path / "logs").rglob("metrics.csv")
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))

    assert {*rows[0]} >= FIGURES | {"loss"}
    assert any(row["diagnose/live_step_ms"] and row["loss"] for row in rows)


def test_figures_are_logged_once_and_the_newest_replace_those_that_no_log_took() -> None:
    offer({"step_ms": 1.0})
    offer({"step_ms": 2.0})

    assert (_taken(), _taken()) == ({"diagnose/live_step_ms": 2.0}, {})
