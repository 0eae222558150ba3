"""`diagnose run` hands signals to the command, whose own end is what counts."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from capture.command_runs import PATIENCE_S, WRITES, Start, ended, script, until

LISTENS = """
import signal, sys, time
def told(number, frame):
    print(signal.Signals(number).name, flush=True)
    open("told", "w").close()
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"):
    signal.signal(getattr(signal, name), told)
open("ready", "w").close()
while not __import__("os").path.exists("go"):
    time.sleep(0.02)
raise SystemExit(7)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_reaches_the_command_once_and_it_decides(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    process = start("--", script(tmp_path, LISTENS))
    until((tmp_path / "ready").exists, process)
    process.send_signal(number)
    until((tmp_path / "told").exists, process)
    time.sleep(0.3)  # in which a second one would come
    (tmp_path / "go").touch()
    code, out, _ = ended(process)

    assert (code, out) == (7, f"{number.name}\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_ends_the_command_leaves_the_report(
    start: Start, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    body = WRITES + "import time\nwrite(1, 2)\nopen('ready', 'w').close()\ntime.sleep(60)"
    process = start("--", script(tmp_path, body))
    until((tmp_path / "ready").exists, process)
    process.send_signal(number)
    ending, _, err = ended(process)

    assert ending == code
    assert "verdict   " in err


def test_ctrl_c_in_a_terminal_reaches_the_command_once(tmp_path: Path) -> None:
    script(tmp_path, LISTENS)
    pid, terminal = os.forkpty()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "diagnose", "run", "--", "train.py"])
    deadline = time.monotonic() + PATIENCE_S
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.write(terminal, b"\x03")
    while not (tmp_path / "told").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)  # in which a second one would come
    (tmp_path / "go").touch()
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 7
    assert shown.count(b"SIGINT") == 1
