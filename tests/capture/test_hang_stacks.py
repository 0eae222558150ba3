"""`diagnose run --hang-stacks`: what py-spy, or a stand-in for it, says of a job that stands still."""

import json
import os
import sys
from pathlib import Path

import pytest
from capture.command_runs import Start, ended, script
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.commands.run import hang_stacks
from diagnose.commands.run.hang_stacks import installed, stacks_of

PRINTS = """#!/bin/sh
echo "$@" >> "$0.calls"
echo "Process $4: python train.py --password secret"
echo "Python v3.11.7 (/usr/bin/python3.11)"
echo
echo "Thread $4 (idle): \\"MainThread\\""
echo "    recv (socket.py:12)"
echo "    train (train.py:99)"
"""
REFUSES = """#!/bin/sh
echo "$@" >> "$0.calls"
echo "Error: Failed to open process $4: Permission denied (os error 13)" >&2
exit 1
"""
STARTS = """
import os, sys, time
from diagnose.probes.timing.pulse import pulse_of
from diagnose.probes.config import from_environment
config = from_environment()
stacks = os.path.join(config.out, "stacks-rank0.txt")
def until(found):
    while not found():
        time.sleep(0.02)
pulse = pulse_of(config, 0)
"""
BEFORE_ITS_FIRST_STEP = (
    STARTS
    + """
pulse.beat(None)
open(os.path.join(config.out, "flight-recorder-rank0"), "wb").close()
until(lambda: os.path.exists(stacks))
"""
)
STANDS = STARTS + "pulse.beat(3, 1_000_000)\n"
SEEN = STANDS + "until(lambda: os.path.exists(stacks))\n"


def py_spy(tmp_path: Path, body: str = PRINTS) -> Path:
    program = tmp_path / "bin" / "py-spy"
    program.parent.mkdir()
    program.write_text(body)
    program.chmod(0o755)
    return program


def hanging(start: Start, tmp_path: Path, job: str, spy: Path) -> tuple[int, str]:
    """The exit code of an armed run of the job, and what was said."""
    path = {"PATH": f"{spy.parent}{os.pathsep}{os.environ['PATH']}"}
    options = ["--arm", "--no-report", "--hang-stacks", "1", "--out", "b"]
    code, _, err = ended(start(*options, "--", script(tmp_path, job), env=path))
    return code, err


@pytest.mark.capture
def test_the_stacks_of_a_job_that_stands_still_lie_where_hang_finds_them(start: Start, tmp_path: Path) -> None:
    spy = py_spy(tmp_path)

    code, err = hanging(start, tmp_path, SEEN + "print(os.getpid()); time.sleep(2); sys.exit(3)", spy)

    called = (tmp_path / "bin" / "py-spy.calls").read_text().split()
    assert (code, called[:3], len(called)) == (3, ["dump", "--nonblocking", "--pid"], 4)  # one standstill, one look
    written = (tmp_path / "b" / "stacks-rank0.txt").read_text()
    assert "after step 3" in written
    assert "secret" not in written
    assert "stacks of rank 0: diagnose hang b" in err
    told = CliRunner().invoke(main, ["hang", str(tmp_path / "b")])
    assert told.exit_code == 0
    assert "train (train.py:99)" in told.output


@pytest.mark.capture
def test_a_dump_of_the_flight_recorder_asks_for_stacks_before_the_first_step_too(start: Start, tmp_path: Path) -> None:
    code, err = hanging(start, tmp_path, BEFORE_ITS_FIRST_STEP, py_spy(tmp_path))

    assert code == 0
    assert "a call of a collective timed out; stacks of rank 0: diagnose hang b" in err
    assert "when a call of a collective timed out" in (tmp_path / "b" / "stacks-rank0.txt").read_text()


@pytest.mark.capture
def test_a_job_that_goes_on_keeps_no_stacks(start: Start, tmp_path: Path) -> None:
    goes_on = "pulse.beat(4)\nuntil(lambda: not os.path.exists(stacks))"

    code, err = hanging(start, tmp_path, SEEN + goes_on, py_spy(tmp_path))

    assert code == 0
    assert "the job goes on: it did not hang" in err
    assert not (tmp_path / "b").exists()  # nothing else was captured


@pytest.mark.capture
def test_a_system_that_lets_nobody_look_is_told_and_changes_nothing(start: Start, tmp_path: Path) -> None:
    spy = py_spy(tmp_path, REFUSES)

    code, err = hanging(start, tmp_path, STANDS + f"until(lambda: os.path.exists('{spy}.calls'))\nsys.exit(5)", spy)

    assert code == 5
    assert "no stack of rank 0: the system lets no process look into it (ptrace)" in err


NEVER_COMES = """
import os, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=2)
weight = torch.nn.Parameter(torch.ones(8))
optimizer = torch.optim.SGD([weight], lr=0.1)
def read_for_ever():
    seen = ""
    while "read_for_ever" not in seen:  # an earlier look, at steps that a busy machine holds up, is no answer
        time.sleep(0.05)
        seen = open("b/stacks-rank1.txt").read() if os.path.exists("b/stacks-rank1.txt") else ""
    os._exit(9)
for step in range(40):
    if step == 30 and rank == 1:
        read_for_ever()
    weight.sum().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
    time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.capture
@pytest.mark.skipif(installed() is None, reason="py-spy is not installed")
def test_py_spy_itself_sees_the_rank_that_never_comes_and_the_one_that_waits(start: Start, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script(tmp_path, NEVER_COMES)
    one = f"{sys.executable} train.py"
    (tmp_path / "both.sh").write_text(f"export WORLD_SIZE=2\nRANK=0 {one} &\nRANK=1 {one} &\nwait\n")

    ended(start("--arm", "--no-report", "--hang-stacks", "2", "--out", "b", "--", "sh", "both.sh"))
    told = CliRunner().invoke(main, ["hang", str(tmp_path / "b"), "--json"])

    answer = json.loads(told.output)
    assert "rank 0 is where ranks wait for each other" in answer["headline"]
    assert any(frame.startswith("read_for_ever (train.py:") for frame in answer["ranks"][1]["stack"])


def test_a_py_spy_that_hangs_is_ended(tmp_path: Path) -> None:
    program = py_spy(tmp_path, "#!/bin/sh\nexec sleep 600\n")

    assert "py-spy took more than" in stacks_of(str(program), {0: 7}, within_s=0.2)[0].why_not


def test_without_py_spy_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hang_stacks, "installed", lambda: None)

    assert (hang_stacks.can_look(None), capfd.readouterr().err) == (False, "")
    assert not hang_stacks.can_look(60)
    assert "py-spy is not installed (pip install py-spy)" in capfd.readouterr().err
