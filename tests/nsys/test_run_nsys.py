"""`diagnose run --nsys` with a program that stands in for nsys, which needs a GPU: what it is asked, what follows."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from nsys_exports import training_export

from diagnose.attribution.leading import NAMES_THE_CLASS
from diagnose.commands.run.nsight import command_line

pytestmark = pytest.mark.capture
STANDS_IN = """#!{python}
import os, shutil, subprocess, sys
flags = [word for word in sys.argv[2:] if word.startswith("--")]
command = sys.argv[2 + len(flags):]
ended = subprocess.run(command, env={{**os.environ, "NSYS_PROFILING_SESSION_ID": "1"}})
output = next(flag for flag in flags if flag.startswith("--output=")).removeprefix("--output=")
with open({asked!r}, "w") as file:
    print(*sys.argv[1:], sep="\\n", file=file)
if os.path.exists({export!r}):
    shutil.copy({export!r}, output + ".sqlite")
sys.exit(ended.returncode)
"""
TRAINS = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
raise SystemExit(7)
"""


def run(tmp_path: Path, *words: str, with_nsys: bool = True) -> "subprocess.CompletedProcess[str]":
    (tmp_path / "train.py").write_text(TRAINS)
    folder = tmp_path / "bin"
    folder.mkdir()
    if with_nsys:
        nsys = folder / "nsys"
        paths = {name: str(tmp_path / name) for name in ("asked", "export")}
        nsys.write_text(STANDS_IN.format(python=sys.executable, **paths))
        nsys.chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin"}
    command = [sys.executable, "-m", "diagnose", "run", *words, "--", "train.py"]
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)


def test_the_window_is_recorded_by_nsys_and_the_export_is_analysed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    training_export(tmp_path / "export")
    done = run(tmp_path, "--nsys", "--steps", "2", "--at-step", "8", "--out", "bundle")

    assert done.returncode == 7, done.stderr
    asked = (tmp_path / "asked").read_text().split("\n")
    assert asked[0] == "profile"
    assert {"--trace=cuda,nvtx,osrt", "--capture-range=cudaProfilerApi", "--capture-range-end=stop"} <= {*asked}
    assert f"--output={tmp_path / 'bundle' / 'nsight'}" in asked
    found = json.loads((tmp_path / "bundle" / "diagnosis.json").read_text())
    assert sum(entry["share"] for entry in found["ledger"] if entry["class"] == "data") >= NAMES_THE_CLASS
    assert sorted(path.name for path in (tmp_path / "bundle").iterdir() if "." in path.name.strip(".")) == [
        "capture-rank0.json",
        "diagnosis.json",
        "nsight.sqlite",
        "rank0.done",
        "report.txt",
        "run-rank0.json",
    ]
    record = json.loads((tmp_path / "bundle" / "capture-rank0.json").read_text())
    assert (record["error"], record["profiler"], record["steps"]["first_active_step"]) == (None, None, 8)


def test_without_an_export_it_says_why(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = run(tmp_path, "--nsys", "--out", "bundle")

    assert done.returncode == 7
    assert "nsys left no export in bundle" in done.stderr


def test_without_nsys_the_job_does_not_start(tmp_path: Path) -> None:
    done = run(tmp_path, "--nsys", with_nsys=False)

    assert done.returncode == 127
    assert "nsys is not on the PATH: install Nsight Systems" in done.stderr
    assert not (tmp_path / "diagnose-runs").exists()


def test_the_line_can_be_printed_where_nsys_is_not_installed(tmp_path: Path) -> None:
    done = run(tmp_path, "--nsys", "--print", "--steps", "3", "--out", "a bundle", with_nsys=False)

    words = shlex.split(done.stdout)
    assert (done.returncode, words[:4]) == (0, ["mkdir", "-p", str(tmp_path / "a bundle"), "&&"])
    config = json.loads(next(word for word in words if word.startswith("PYTHON_DIAGNOSE=")).partition("=")[2])
    assert (config["nsight"], config["steps"]) == (True, 3)
    at = words.index("nsys")
    assert words[at : at + 2] == ["nsys", "profile"]
    assert words[-1] == "train.py"
    assert next(word for word in words if word.startswith("PYTHONPATH=")).endswith("${PYTHONPATH:+:$PYTHONPATH}")
    assert not (tmp_path / "a bundle").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--nsys", "--arm"], "choose one"), (["--print"], "--print needs --nsys"), (["--nsys", "--log"], "one")],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, words: list[str], says: str) -> None:
    done = run(tmp_path, *words)

    assert (done.returncode, says in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "nsight"),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, "nsight"),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}, "nsight-rank3"),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, "nsight-rank1"),
    ],
)
def test_each_nsys_of_one_job_writes_a_file_of_its_own(environment: dict[str, str], name: str) -> None:
    line = command_line(["python", "train.py"], Path("out"), environment)

    assert f"--output=out/{name}" in line


class Cuda:
    """What torch.cuda is asked for, noted."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> object:
        def call() -> "Cuda":
            self.asked.append(name)
            return self

        return call


def test_nsys_records_the_steps_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from diagnose.probes.recording import nsight_window

    cuda = Cuda()
    monkeypatch.setattr(nsight_window, "_cuda", lambda: cuda)
    window = nsight_window.NsightWindow(warmup=2, active=3)
    window.start(list, 10)
    told = []
    for _ in range(5):
        window.step()
        told.append(cuda.asked.count("cudaProfilerStart"))
    window.stop()
    window.stop()

    assert told == [0, 1, 1, 1, 1]
    assert cuda.asked == ["cudart", "cudaProfilerStart", "synchronize", "cudart", "cudaProfilerStop"]
    assert (window.recorded, window.running, window.holds_a_step) == (True, False, True)


@pytest.mark.parametrize("hangs", [True, False])
def test_a_device_that_hangs_is_not_waited_for_and_one_that_fails_ends_the_recording(
    monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    from diagnose.probes.recording import nsight_window

    def fails() -> None:
        cuda.asked.append("synchronize")
        raise RuntimeError("device-side assert")

    cuda = Cuda()
    cuda.synchronize = fails  # type: ignore[attr-defined]
    monkeypatch.setattr(nsight_window, "_cuda", lambda: cuda)
    window = nsight_window.NsightWindow(warmup=0, active=3)
    window.start(list, 10)
    if hangs:
        window.abort()
    else:
        with pytest.raises(RuntimeError, match="device-side assert"):
            window.stop()

    assert ("synchronize" in cuda.asked, cuda.asked[-1], window.running) == (not hangs, "cudaProfilerStop", False)
