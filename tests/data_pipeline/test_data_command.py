"""`diagnose data` as a user types it: what goes where, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from capture.command_runs import ended, script, until
from click.testing import CliRunner
from data_pipeline.jobs import SIMPLE
from data_pipeline.jobs import ended as measured_in
from data_pipeline.measurements import made

from diagnose.cli import main
from diagnose.commands.data.answer import PipelineReport
from diagnose.commands.data.command import _nothing_measured, question_of
from diagnose.commands.data.judge import report_of
from diagnose.probes.pipeline.asked import LoadingRequest
from diagnose.probes.protocol import MARKS_FOLDER, PYTHON_MARK

pytestmark = pytest.mark.capture

LOADS = SIMPLE.replace("loop_begin.install()", "") + "train(DataLoader(torch.ones(4000, 8), batch_size=8))\n"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts `diagnose data ARGS` in an empty folder."""

    def popen(*args: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "diagnose", "data", *args]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, env=env)

    return popen


def test_the_answer_goes_to_stdout_and_the_rest_to_stderr(start: Start, tmp_path: Path) -> None:
    job = script(tmp_path, "print('of the job')\n" + LOADS)
    code, out, err = ended(start("--seconds", "1", "--json", "--", job))
    answer = json.loads(out)

    assert code == 0, err
    jsonschema.validate(answer, PipelineReport.schema())
    assert (answer["loop"], answer["batch_size"]) == ("the script's loop", 8)
    assert "of the job" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == [job]


@pytest.mark.slow
def test_ranks_of_torchrun_end_and_the_first_is_measured(start: Start, tmp_path: Path) -> None:
    job = script(tmp_path, "import torch.distributed as d\nd.init_process_group('gloo')\n" + LOADS)
    code, out, err = ended(start("--seconds", "1", "--", "torchrun", "--nproc_per_node", "2", job))

    assert code == 0, err
    assert out.startswith("job:        the script's loop, dataset Tensor, 4,000 samples, batches of 8, 0")
    assert "rank 0 was measured alone" in out
    assert "trained" not in err.splitlines()


def test_a_script_that_fails_before_ends_with_its_own_code_and_output(start: Start, tmp_path: Path) -> None:
    code, out, err = ended(start("--", script(tmp_path, "import sys\nprint('no data')\nsys.exit(7)\n")))

    assert (code, out) == (7, "")
    assert err == "no data\ndiagnose: not measured: the command ended with 7 before its training loop began\n"


def test_a_script_without_a_training_loop_is_told_what_it_lacks(start: Start, tmp_path: Path) -> None:
    code, out, err = ended(start("--", script(tmp_path, "import torch")))

    assert (code, out) == (3, "")
    assert err == (
        "Error: nothing was measured\n"
        "  why: the script iterated no torch DataLoader\n"
        "  do:  check that the command trains\n"
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "list(DataLoader(torch.ones(8)))",
            "no training loop began; DataLoaders that were iterated: 1 (Tensor): there is no optimizer yet",
        ),
        ("torch.optim.SGD(nn.Linear(8, 1).parameters()).step()", "the script trains on what no torch DataLoader gives"),
        ("train(DataLoader([]))", "the training DataLoader has no batch: its dataset (list) is empty"),
        (
            "train(DataLoader([1], batch_size=2, drop_last=True))",
            "the training DataLoader has no batch: its dataset (list) has 1 sample, and a batch of less than 2 is "
            "dropped",
        ),
        (
            "train(DataLoader([1], batch_sampler=[]))",
            "the training DataLoader has no batch: its sampler gives nothing of its dataset (list)",
        ),
    ],
)
def test_what_a_script_lacks_is_told_by_what_the_probe_left(tmp_path: Path, body: str, why: str) -> None:
    assert measured_in(SIMPLE + body, tmp_path).returncode == 0
    (tmp_path / MARKS_FOLDER).mkdir()
    for mark in (PYTHON_MARK, "torch"):
        (tmp_path / MARKS_FOLDER / mark).touch()

    assert _nothing_measured(tmp_path, LoadingRequest(str(tmp_path))).why == why


def test_an_interrupt_ends_it_with_130(start: Start, tmp_path: Path) -> None:
    process = start("--", script(tmp_path, "import time\nopen('begun', 'w').close()\ntime.sleep(600)\n"))
    until((tmp_path / "begun").exists, process)
    process.send_signal(signal.SIGINT)
    code, out, _ = ended(process)

    assert (code, out) == (130, "")


def test_a_diagnosed_run_gives_the_step(tmp_path: Path) -> None:
    sample = Path(__file__).parents[2] / "sample_traces" / "cpu-slow-loader.json.gz"
    run = tmp_path / "run.json"
    run.write_bytes(CliRunner().invoke(main, ["analyze", str(sample), "--json"]).stdout_bytes)
    workers = report_of(made(), question_of(run, None)).workers

    assert workers.step_from.endswith("run.json")
    assert workers.least is not None
    assert workers.least >= 1


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ((), 2, "No command"),
        (("--step-ms", "5", "--run", "r.json", "--", "x.py"), 2, "choose one of --step-ms and --run"),
        (("--run", "r.json", "--", "x.py"), 3, "no such file: r.json"),
        (("--", "not-there"), 127, "cannot run the command: not-there"),
        (("--", sys.executable, "-I", "x.py"), 3, "Python runs with -I"),
    ],
)
def test_wrong_use_is_told_before_anything_runs(args: tuple[str, ...], code: int, says: str) -> None:
    done = CliRunner().invoke(main, ["data", *args])

    assert done.exit_code == code
    assert says in done.stderr
