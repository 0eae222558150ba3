"""`diagnose watch` beside real jobs: while they train, when they end and when they are killed."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from needs import needs

needs("torch")
pytestmark = [pytest.mark.capture, pytest.mark.long]

PATIENCE_S = 300
PROGRAM = [sys.executable, "-m", "diagnose"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "60", "DIAGNOSE_LEDGER": "off"}
JOB = """
import time
from pathlib import Path
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
{wraps}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = torch.utils.data.TensorDataset(torch.ones(1_000_000, 8))
for (batch,) in torch.utils.data.DataLoader(samples, batch_size=4):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    if Path("enough").exists():
        break
"""
RELOADS = '<meta http-equiv="refresh" content="1">'
RUNS = 'diagnose_run_state{run="out",state="running"} 1\n'
OF_RANKS = """torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(model)"""
RANKS = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


@contextmanager
def armed_job(here: Path, *launcher: str, wraps: str = "", windows: tuple[str, ...] = ()) -> Iterator[Path]:
    """The folder of a job that trains until there is a file `enough`; it does when this begins."""
    (here / "train.py").write_text(JOB.format(wraps=wraps))
    options = ["run", "--arm", "--no-report", "--out", "out", *(windows or ("--at-step", "1000000"))]
    words = [*PROGRAM, *options, "--", *((sys.executable, *launcher) if launcher else ()), "train.py"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, cwd=here, env=ENVIRONMENT, stdout=quiet, stderr=quiet) as process:
        try:
            ranks = 2 if launcher else 1
            awaited(lambda: all('"us"' in text(here / "out" / f"rank{rank}.steps") for rank in range(ranks)))
            yield here / "out"
        finally:
            (here / "enough").touch()
            process.wait(PATIENCE_S)


def awaited(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def once(run: Path) -> str:
    done = subprocess.run(
        [*PROGRAM, "watch", str(run), "--once"], env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@contextmanager
def watched(run: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """The command with its output in a pipe."""
    command = [*PROGRAM, "watch", str(run), "--every", "0.2", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True) as process:
        yield process


def process_of(run: Path, rank: int = 0) -> int:
    return int(json.loads((run / f"rank{rank}.steps").read_text().splitlines()[0])["pid"])


def files(run: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in run.rglob("*")}


def test_a_job_is_seen_to_run_and_to_end_and_nothing_is_written(tmp_path: Path) -> None:
    page_file, metrics = tmp_path / "view.html", tmp_path / "view.prom"
    with armed_job(tmp_path, windows=("--at-step", "15")) as run:
        awaited(lambda: '"closed"' in text(run / "rank0.steps"))
        page = once(run)
        with watched(run, "--page", str(page_file), "--prometheus", str(metrics)) as watching:
            assert watching.stdout is not None
            first = watching.stdout.readline()
            while_it_runs = page_file.read_text(), metrics.read_text()
            (tmp_path / "enough").touch()
            said, failed = watching.communicate(timeout=PATIENCE_S)
    before = files(run)
    after_it = once(run)

    assert page.startswith("state     running\nprogress  step ")
    assert max(map(len, page.splitlines())) <= 60
    assert re.search(r"^step +[\d.]+ ms now, [\d.]+ ms usual$", page, re.MULTILINE)
    assert re.search(r"^speed +[\d.,]+ samples/s$", page, re.MULTILINE)
    assert "of the host step, in the window at" in " ".join(page.split())
    assert "mfu       unknown, because the trace has no GPU activity" in page
    assert re.search(r"^verdict +[a-z]+-bound|^verdict +no verdict: ", page, re.MULTILINE)
    assert first.startswith("running; step ")
    assert (watching.returncode, failed) == (0, "")
    assert said.splitlines()[-1].startswith("ended: the process ended; step ")
    assert after_it.startswith("state     ended: the process ended\n")
    assert files(run) == before
    assert [RELOADS in while_it_runs[0], RELOADS in page_file.read_text()] == [True, False]
    assert [RUNS in text for text in (while_it_runs[1], metrics.read_text())] == [True, False]
    assert 'diagnose_run_state{run="out",state="ended"} 1\n' in metrics.read_text()


def test_a_killed_job_is_said_to_be_and_the_view_ends(tmp_path: Path) -> None:
    with armed_job(tmp_path) as run, watched(run) as watching:
        assert watching.stdout is not None
        first = watching.stdout.readline()
        os.kill(process_of(run), signal.SIGKILL)
        said, failed = watching.communicate(timeout=PATIENCE_S)

    assert first.startswith("running; step ")
    assert (watching.returncode, failed) == (0, "")
    assert said.splitlines()[-1].startswith("killed: no process writes its log, which has no end")


def test_an_interrupt_ends_the_lines_and_not_the_job(tmp_path: Path) -> None:
    with armed_job(tmp_path) as run:
        with watched(run) as watching:
            assert watching.stdout is not None
            lines = [watching.stdout.readline() for _ in range(2)]
            watching.send_signal(signal.SIGINT)
            _, failed = watching.communicate(timeout=PATIENCE_S)
        is_running = once(run).startswith("state     running")

    assert all(line.startswith("running; step ") for line in lines)
    assert (watching.returncode, failed, is_running) == (0, "", True)


def test_of_two_ranks_the_one_that_was_killed_is_named(tmp_path: Path) -> None:
    with armed_job(tmp_path, *RANKS, wraps=OF_RANKS) as run:
        both = once(run)
        with watched(run) as watching:
            os.kill(process_of(run, rank=1), signal.SIGKILL)
            said, failed = watching.communicate(timeout=PATIENCE_S)

    assert both.startswith("state     running\n")
    assert sorted(re.findall(r"^(?:ranks)? +(\d): step \d", both, re.MULTILINE)) == ["0", "1"]
    assert (watching.returncode, failed) == (0, "")
    assert re.match(r"killed: (rank 1|all ranks): no process writes its log", said.splitlines()[-1])


def test_a_stopped_process_holds_its_log_and_one_that_ended_does_not(tmp_path: Path) -> None:
    from diagnose.probes.timing.step_log import is_written

    with armed_job(tmp_path) as run:
        os.kill(process_of(run), signal.SIGSTOP)
        stopped = is_written(str(run / "rank0.steps"))
        os.kill(process_of(run), signal.SIGCONT)

    assert (stopped, is_written(str(run / "rank0.steps"))) == (True, False)
    assert is_written(str(run / "rank9.steps")) is None


ON_A_TERMINAL = """
import fcntl, os, struct, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
def test_on_a_terminal_the_view_stays_in_its_place_until_a_key_ends_it(key: bytes, tmp_path: Path) -> None:
    import termios

    ours, its = os.openpty()
    before = termios.tcgetattr(its)
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    with armed_job(tmp_path) as run:
        command = [sys.executable, "-c", ON_A_TERMINAL, *PROGRAM, "watch", str(run), "--every", "0.2"]
        with subprocess.Popen(command, env=environment, stdin=its, stdout=its, stderr=its) as watching:
            os.set_blocking(ours, False)
            seen = bytearray()
            awaited(lambda: read_into(seen, ours).count(b"ends the view, not the job") > 1)
            os.write(ours, key)
            awaited(lambda: bool(read_into(seen, ours)) and watching.poll() is not None)
        is_running = once(run).startswith("state     running")

    assert (watching.returncode, is_running) == (0, True)
    assert b"Traceback" not in seen
    assert b"\x1b[1A" in seen  # up: the second view takes the place of the first
    assert max(len(line) for line in without_codes(seen).splitlines()) <= 60
    assert termios.tcgetattr(its) == before


def read_into(seen: bytearray, number: int) -> bytearray:
    with contextlib.suppress(BlockingIOError):
        seen += os.read(number, 65_536)
    return seen


def without_codes(seen: bytearray) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace"))
