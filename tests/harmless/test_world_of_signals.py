"""A command takes signals, stops and continues below `diagnose run` as without it, with and without a terminal."""

import os
import pty
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest
from harmless.parents import DIAGNOSE, PATIENCE_S, RANK, below, ended, python

WAITS = """
import os, time
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
raise SystemExit(7)
"""


def test_python_in_the_command_has_its_own_handler_of_ctrl_c(tmp_path: Path) -> None:
    body = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"

    assert ended(below(python(tmp_path, body)), tmp_path).stdout == "True\n"


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGXCPU, signal.SIGCONT, signal.SIGRTMIN + 2])
def test_any_signal_reaches_the_command(number: int, tmp_path: Path) -> None:
    body = f"""
import os, signal, time
def told(*_):
    print("told", flush=True)
    open("told", "w").close()
signal.signal({int(number)}, told)
with open("ready", "w") as file: file.write(f"/proc/{{os.getpid()}}/stat")
if {number == signal.SIGCONT}:
    os.kill(os.getpid(), signal.SIGSTOP)
while not os.path.exists("told"): time.sleep(0.01)
"""
    command = f"""
import os, subprocess, sys, time
parent = subprocess.Popen({below(python(tmp_path, body))!r})
while not os.path.exists("ready") or not open("ready").read(): time.sleep(0.01)
while {number == signal.SIGCONT} and ") T " not in open(open("ready").read()).read(): time.sleep(0.01)
parent.send_signal({int(number)})
raise SystemExit(parent.wait())
"""
    done = ended(python(tmp_path, command, "sends.py"), tmp_path)

    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr


def test_a_stop_of_the_parent_alone_is_no_signal_for_the_command(tmp_path: Path) -> None:
    """As of a machine that stands still, or of a scheduler that suspends a job."""
    parent = subprocess.Popen(below(python(tmp_path, WAITS)), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + PATIENCE_S
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for _ in range(8):
        parent.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        parent.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    (tmp_path / "go").touch()
    _, err = parent.communicate(timeout=PATIENCE_S)

    assert (parent.returncode, err.count("\n"), "Traceback" in err) == (7, 1, False)


class Terminal:
    """A terminal with `command` in its foreground, started by a shell of few words."""

    def __init__(self, command: list[str], folder: Path, *, background: bool = False) -> None:
        self.folder = folder
        self.shown = b""
        self.shell, self.number = pty.fork()
        if self.shell == 0:
            os.chdir(folder)
            self._shell(command, background)

    def _shell(self, command: list[str], background: bool) -> None:
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        attributes = termios.tcgetattr(0)
        attributes[3] |= termios.TOSTOP
        termios.tcsetattr(0, termios.TCSANOW, attributes)
        job = os.fork()
        if job == 0:
            os.setpgid(0, 0)
            if not background:
                os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.execv(command[0], command)
        endings = []
        while not endings or endings[-1].startswith("stopped"):
            _, status = os.waitpid(job, os.WUNTRACED)
            stopped = os.WIFSTOPPED(status)
            endings.append("stopped" if stopped else f"ended {os.waitstatus_to_exitcode(status)}")
            if stopped:
                Path("stopped").touch()
                time.sleep(0.5)
                os.killpg(job, signal.SIGCONT)
        Path("endings").write_text("\n".join(endings))
        os._exit(0)

    def wait_for(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, self.shown
            time.sleep(0.01)

    def endings(self) -> list[str]:
        while True:
            try:
                self.shown += os.read(self.number, 4096)
            except OSError:  # the other end is closed
                break
        os.waitpid(self.shell, 0)
        os.close(self.number)
        return (self.folder / "endings").read_text().splitlines()


def test_ctrl_z_stops_the_job_and_the_shell_continues_it(tmp_path: Path) -> None:
    terminal = Terminal(below(python(tmp_path, WAITS)), tmp_path)
    terminal.wait_for("ready")
    os.write(terminal.number, b"\x1a")
    terminal.wait_for("stopped")
    (tmp_path / "go").touch()
    first, *_, last = terminal.endings()

    assert first == "stopped"
    assert last == "ended 7"


def test_a_command_that_does_not_stop_keeps_the_terminal(tmp_path: Path) -> None:
    body = "import signal\nsignal.signal(signal.SIGTSTP, lambda *_: open('go', 'w').close())\n" + WAITS
    terminal = Terminal(below(python(tmp_path, body)), tmp_path)
    terminal.wait_for("ready")
    os.write(terminal.number, b"\x1a")

    assert terminal.endings() == ["ended 7"]


def test_a_report_in_the_background_does_not_stop_the_job(tmp_path: Path) -> None:
    """A terminal that is set so stops every process of a background job when one of them writes."""
    command = ["/bin/sh", "-c", f"{' '.join(python(tmp_path, RANK + 'write()'))}; exit 5"]
    terminal = Terminal([*DIAGNOSE, "--out", "b", "--", *command], tmp_path, background=True)

    assert terminal.endings() == ["ended 5"]
    assert b"verdict   " in terminal.shown
