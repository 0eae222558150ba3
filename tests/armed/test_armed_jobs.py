"""Armed jobs from their command to their report: real steps, real ranks, real kills."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.series import read_series

pytest.importorskip("torch")
pytestmark = [pytest.mark.capture, pytest.mark.long]

PATIENCE_S = 300
TOY = """
import sys, time
import torch
import diagnose.probes.session
diagnose.probes.session.PATIENCE_S = 300  # no window is longer where a busy machine writes a trace slowly
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(400_000, 8))
def save_everything():
    time.sleep(0.4)
def during(step):
    pass
def train(steps, every=10**9):
    for step, (batch,) in enumerate(torch.utils.data.DataLoader(data, batch_size=2), 1):
        if step % every == 0:
            save_everything()
        model(batch).square().mean().backward()
        during(step)
        time.sleep(0.01)
        optimizer.step()
        optimizer.zero_grad()
        if step == steps:
            break
"""


def diagnose(*arguments: object, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "diagnose", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def analysed(*arguments: str) -> Result:
    """A command of the analysis, in this process."""
    return CliRunner().invoke(main, list(arguments))


def armed(folder: Path, body: str, *options: object) -> "subprocess.CompletedProcess[str]":
    """A job in `folder` that goes on after the toy, armed into folder/out."""
    (folder / "train.py").write_text(TOY + body)
    return diagnose("run", "--arm", "--out", "out", *options, "--", "train.py", folder=folder)


def periods(series: Any) -> set[int]:
    """Steps between slow ones, told as a cadence or, of each for itself, as stalls that come again."""
    again = [stall["recurs"] for stall in series["stalls"] if stall["recurs"]]
    return {each["every_steps"] for each in [*series["periodic"], *again]}


ON_A_CLOCK = """
from diagnose.probes.timing.session import TimingClock
from diagnose.probes.current_session import session
passed_ns = 0
session().clock = TimingClock(lambda: passed_ns)  # by any other some steps are slow on a busy machine
def during(step):
    global passed_ns
    passed_ns += 100_000_000
def save_everything():
    global passed_ns
    passed_ns += 500_000_000
    time.sleep(0.5 if torch.autograd._profiler_enabled() else 0)
"""


def test_a_stall_every_25_steps_is_found_recorded_and_named(tmp_path: Path) -> None:
    """What is slow is so by the clock of the job, and what grew in it in what was recorded."""
    job = ON_A_CLOCK + "train(220, every=25)"
    done = armed(tmp_path, job, "--when-slow", "1.5", "--json", "out.json", "--report", "out.txt")

    run = json.loads((tmp_path / "out.json").read_text())
    window = run["windows"][0]
    recorded = [one for one in window["diagnosis"]["slow_steps"] if one["recorded"]]
    slow = next(one for one in recorded if one["step"] == window["slow_step"])
    report = (tmp_path / "out.txt").read_text()

    assert done.returncode == 0, done.stderr
    assert window["why"] == "a slow step comes every 25 steps"
    assert slow["step"] % 25 == 0
    assert 4.5e8 < slow["cause_ns"] < slow["ns"]
    assert 25 in periods(run["series"])
    assert f"step {slow['step']}" in report
    assert f"diagnose analyze out/step-{slow['step'] - 2}" in report
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "rank0.steps",
        "run-rank0.json",
        window["folder"],
    ]


def test_analyze_tells_the_run_and_each_window(tmp_path: Path) -> None:
    armed(tmp_path, "train(60)", "--at-step", 20, "--at-step", 40, "--no-report")

    whole = analysed("analyze", str(tmp_path / "out"))
    one = analysed("analyze", str(tmp_path / "out" / "step-40"), "--json")
    series = analysed("series", str(tmp_path / "out"), "--json")
    refused = analysed("analyze", str(tmp_path / "out"), "--html", "a.html")

    assert whole.output.count("\nwindow  ") == 2
    assert "step 20: asked for by --at-step 20" in whole.output
    assert json.loads(one.output)["steps"]["numbers"] == [41, 42, 43]
    assert json.loads(series.output)["last_step"] == 60
    assert (refused.exit_code, "--html needs a single window" in refused.output) == (2, True)


def test_what_came_of_a_patch_is_told_at_the_end(tmp_path: Path) -> None:
    patch = {"target": "torch", "set": {"float32_matmul_precision": "high"}}
    (tmp_path / "patch.json").write_text(json.dumps(patch))

    done = armed(tmp_path, "train(60)", "--at-step", 20, "--apply", "patch.json", "--json", "out.json")

    run = json.loads((tmp_path / "out.json").read_text())
    assert done.returncode == 0, done.stderr
    assert "diagnose: applied: float32_matmul_precision=high: " in done.stderr
    assert "applied     float32_matmul_precision=high: " in done.stderr
    assert [patch["set"] for patch in run["applied"]["patches"]] == [{"float32_matmul_precision": "high"}]
    assert run["windows"][0]["diagnosis"]["applied"] == run["applied"]


@pytest.mark.slow
def test_where_a_single_long_stall_was_is_told(tmp_path: Path) -> None:
    body = """
def during(step):
    if step == 50:
        time.sleep(5)
train(60)
"""
    done = armed(tmp_path, body)

    assert "train.py:" in done.stderr.partition("long steps:")[2].partition("window")[0]
    assert "during" in done.stderr.partition("long steps:")[2]


@pytest.mark.parametrize(
    ("at", "told"),
    [
        pytest.param(175, "closed", marks=pytest.mark.slow, id="between windows"),
        pytest.param(143, "window", id="inside one"),
    ],
)
def test_a_process_that_is_killed_leaves_a_bundle_that_can_be_read(tmp_path: Path, at: int, told: str) -> None:
    body = f"""
import os, signal
def during(step):
    if step == {at}:
        while '"{told}"' not in open("out/rank0.steps").read():  # what the thread beside knows is written with it
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
train(200)
"""
    done = armed(tmp_path, body, "--at-step", 141, "--at-step", 180)
    (track,) = read_series(tmp_path / "out").tracks

    assert done.returncode == 128 + signal.SIGKILL
    assert "the log of rank 0 does not end" in done.stderr
    assert 90 <= track.step[-1] < at
    assert ("the process ended inside it" in done.stderr) == (at == 143)
    assert [path.name for path in (tmp_path / "out").rglob(".*")] == []


@pytest.mark.slow
def test_two_ranks_open_together_when_asked_and_one_that_is_killed_costs_its_own_part(tmp_path: Path) -> None:
    body = """
import os, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"),
                        rank=int(os.environ["RANK"]), world_size=2)
def during(step):
    dist.all_reduce(torch.ones(1))
    if os.path.exists("kill") and dist.get_rank() == 1:
        os.kill(os.getpid(), 9)
train(10**9)  # until it is killed
"""
    (tmp_path / "train.py").write_text(TOY + body)
    (tmp_path / "both.sh").write_text(
        f"export WORLD_SIZE=2\nRANK=0 {sys.executable} train.py &\nRANK=1 {sys.executable} train.py &\nwait\n"
    )
    command = [sys.executable, "-m", "diagnose", "run", "--arm", "--out", "out", "--", "sh", "both.sh"]
    job = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + PATIENCE_S
    while not all((tmp_path / "out" / f"rank{rank}.steps").exists() for rank in (0, 1)):
        assert time.monotonic() < until
        time.sleep(0.1)
    asked = diagnose("trigger", "out", folder=tmp_path)
    window = tmp_path / "out" / asked.stdout.strip().rpartition("/")[2]
    while not all((window / f"rank{rank}.done").exists() for rank in (0, 1)):
        assert time.monotonic() < until, asked
        time.sleep(0.1)
    (tmp_path / "kill").touch()
    _, told = job.communicate(timeout=PATIENCE_S)
    run = json.loads(analysed("analyze", str(tmp_path / "out"), "--json").output)

    assert run["windows"][0]["ranks"] == [0, 1]
    assert run["windows"][0]["why"] == "asked for by diagnose trigger"
    assert len(run["windows"][0]["diagnosis"]["ranks"]) == 2
    assert 1 in run["unended"]
    assert run["series"]["tracks"] == 2
    assert "window  " in told


@pytest.mark.slow
def test_a_trainer_counts_its_own_steps_and_opens_windows_between_them(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from capture.scripts import TRAINER, run

    (tmp_path / "out" / ".diagnose").mkdir(parents=True)
    window = {"armed": {"at_steps": [8, 18]}, "sample_steps": 0}
    done = run(TRAINER + "trainer().train(); finish()", tmp_path, window)

    assert done.returncode == 0, done.stderr
    found = json.loads(analysed("analyze", str(tmp_path / "out"), "--json").output)
    assert [one["first_step"] for one in found["windows"]] == [8, 18]
    assert [one["diagnosis"]["setup"]["training_loop"] for one in found["windows"]] == ["transformers Trainer"] * 2
    assert found["series"]["last_step"] == 24
    assert found["unended"] == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--when-slow", "1.3"), "--when-slow needs --arm"),
        (("--hang-stacks", "60"), "--hang-stacks needs --arm"),
        (("--at-step", "3", "--at-step", "5"), "Several --at-step need --arm"),
        (("--arm", "--stop"), "--stop ends the job after a window"),
        (("--arm", "--html", "a.html"), "--html needs a single window"),
        (("--arm", "--at-step", "9", "--windows", "2"), "--windows needs --when-slow or --every"),
    ],
)
def test_options_that_contradict_each_other_start_no_job(options: tuple[str, ...], says: str) -> None:
    refused = analysed("run", *options, "--", "train.py")

    assert (refused.exit_code, says in refused.output) == (2, True)


def test_asking_where_nothing_runs_armed_says_so(tmp_path: Path) -> None:
    refused = analysed("trigger", str(tmp_path))

    assert refused.exit_code == 3
    assert "no armed run" in refused.output
