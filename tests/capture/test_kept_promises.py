"""From end to end: a diagnosis promises a gain, a run with its patch measures it, and the ledger keeps both.

The promises are such that the speed of the machine decides nothing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from capture.command_runs import PATIENCE_S, TRACE
from click.testing import CliRunner
from kept_promises import kept_at_any_speed
from needs import needs

from diagnose.cli import main
from diagnose.commands.ledger import file
from diagnose.commands.ledger.prediction import Prediction

TRAIN = """
import time, torch
torch.set_num_threads(1)
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 120
    def __getitem__(self, i):
        time.sleep(0.01)
        return torch.ones(4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in torch.utils.data.DataLoader(Slow(), batch_size=4):
    loss = model(batch).mean()
    time.sleep(0.02)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class Runs:
    """Runs the script with `diagnose run` in a folder where the ledger is on; the promises kept so far."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        (folder / "train.py").write_text(TRAIN)

    def __call__(self, *options: str, **env: str) -> str:
        """What the run says on stderr."""
        ours = {"DIAGNOSE_LEDGER": "on", "DIAGNOSE_DATA_DIR": str(self.data), **env}
        done = subprocess.run(
            [sys.executable, "-m", "diagnose", "run", "--at-step", "8", "--no-sampling", *options, "--", "train.py"],
            cwd=self.folder, env={**os.environ, **ours}, capture_output=True, text=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stderr

    @property
    def kept(self) -> tuple[Prediction, ...]:
        return file.read(self.data).predictions


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs of a job, of which there is a diagnosis that promises a gain by workers."""
    needs("torch")
    runs = Runs(tmp_path_factory.mktemp("promises"))
    told = CliRunner().invoke(main, ["analyze", str(TRACE), "--json"]).stdout
    (runs.folder / "before.json").write_text(json.dumps(kept_at_any_speed(json.loads(told))))
    return runs


def test_a_run_with_the_patch_keeps_what_was_promised_and_what_came(before: Runs) -> None:
    told = json.loads((before.folder / "before.json").read_text())
    (promised,) = [finding for finding in told["findings"] if finding["rule"] == "data-wait"]

    said = before("--apply", "before.json#data-wait", "--json", "after.json")

    assert "diagnose: kept in the ledger of promises" in said
    applied = json.loads((before.folder / "after.json").read_text())["applied"]
    (kept,) = before.kept
    assert (kept.rules, kept.source, kept.ranks) == (("data-wait",), "apply", 1)
    assert kept.predicted[0] == pytest.approx(promised["predicted_speedup"][0], rel=1e-4)
    assert kept.achieved[1] == pytest.approx(applied["measured_speedup"], rel=1e-4)
    assert kept.versions.keys() >= {"torch", "diagnose"}
    assert str(before.folder) not in (before.data / file.NAME).read_text()


def test_an_armed_run_with_the_patch_keeps_it_too(before: Runs) -> None:
    """Where a step of the window was slow, as on a busy machine, nothing is kept; what came is told all the same."""
    until_then = len(before.kept)

    said = before("--arm", "--apply", "before.json#data-wait", "--json", "armed.json")

    run = json.loads((before.folder / "armed.json").read_text())
    (window,) = run["windows"]
    keeps = window["slow_step"] is None
    assert f"measured {run['applied']['measured_speedup']:.2f}x" in said.splitlines()[-2]
    assert ("diagnose: kept in the ledger of promises" in said) == keeps
    assert [kept.rules for kept in before.kept[until_then:]] == [("data-wait",)] * keeps


@pytest.mark.parametrize(
    ("options", "env"),
    [
        pytest.param(["--no-ledger"], {}, id="--no-ledger", marks=pytest.mark.slow),
        pytest.param([], {"DIAGNOSE_LEDGER": "", "LSB_JOBID": "7"}, id="a scheduler", marks=pytest.mark.slow),
    ],
)
def test_what_is_not_wanted_is_not_kept(before: Runs, options: list[str], env: dict[str, str]) -> None:
    until_then = before.kept

    said = before("--apply", "before.json#data-wait", *options, **env)

    assert "ledger of promises" not in said
    assert before.kept == until_then


@pytest.mark.slow
def test_a_ledger_that_cannot_be_written_costs_a_line(before: Runs) -> None:
    said = before("--apply", "before.json#data-wait", DIAGNOSE_DATA_DIR="/proc/diagnose")

    assert "diagnose: not kept in the ledger of promises: No such file or directory" in said
    assert "report: " in said.splitlines()[-1]
