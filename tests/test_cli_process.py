"""The command as a process of its own: terminals, pipes, full disks and Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import diagnose
from diagnose import __version__

pytestmark = pytest.mark.long


def test_the_analysis_is_announced_on_a_terminal_only_and_only_on_stderr(tmp_path: Path) -> None:
    command = program(tmp_path, "return diagnoses.data_bound()")
    for args, announced in (([], True), (["--json"], True), (["--quiet"], False)):
        leader, follower = os.openpty()
        environment = os.environ | {"TERM": "xterm"}
        arguments = [*command, "analyze", "x", *args]
        done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=follower, env=environment, check=True)
        os.close(follower)
        told = os.read(leader, 4096) if announced else b""
        os.close(leader)

        assert (b"reading x ..." in told) == announced
        assert b"reading" not in done.stdout


@pytest.mark.parametrize(
    ("streams", "code", "told"),
    [(">&-", 3, "standard output is closed"), ("2>&- >/dev/null", 0, ""), (">&- 2>&-", 3, "")],
)
def test_a_stream_that_is_closed_is_no_defect(streams: str, code: int, told: str, tmp_path: Path) -> None:
    command = program(tmp_path, "return diagnoses.data_bound()")
    done = subprocess.run(
        ["sh", "-c", f'"$@" {streams}', "sh", *command, "analyze", "x"], capture_output=True, text=True, check=False
    )

    assert done.returncode == code
    assert told in done.stderr


def test_no_color_prints_no_colour_on_a_terminal(tmp_path: Path) -> None:
    command = [*program(tmp_path, "return diagnoses.data_bound()"), "analyze", "x", "-q"]
    for no_color in ({}, {"NO_COLOR": "1"}):
        leader, follower = os.openpty()
        environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm-256color"} | no_color
        subprocess.run(command, stdout=follower, stderr=subprocess.PIPE, env=environment, check=True)
        os.close(follower)
        seen = os.read(leader, 65536)
        os.close(leader)

        assert bool(re.search(rb"\x1b\[[0-9;]*3[0-7]m", seen)) == (not no_color)


def program(tmp_path: Path, patch: str) -> list[str]:
    """A command that runs diagnose in a process of its own, its analysis replaced by `patch`."""
    script = tmp_path / "program.py"
    paths = [str(Path(__file__).parent), str(Path(diagnose.__file__).parents[1])]
    script.write_text(
        f"import sys, time; sys.path[:0] = {paths!r}\n"
        "import diagnoses, diagnose.analysis\nfrom diagnose.cli import main\n"
        f"def analyze(path, options):\n{textwrap.indent(patch, '    ')}\n"
        "diagnose.analysis.analyze = analyze\nmain(prog_name='diagnose')\n"
    )
    return [sys.executable, str(script)]


def test_a_reader_that_closes_the_pipe_ends_it_quietly(tmp_path: Path) -> None:
    command = program(tmp_path, "time.sleep(0.3); return diagnoses.data_bound()")
    for args in (["analyze", "x"], ["analyze", "x", "--json"], ["schema"], ["metrics"], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([*command, *args], stdout=write, stderr=subprocess.PIPE, check=False)
        os.close(write)

        assert (done.returncode, done.stderr) == (0, b""), args


def test_fail_on_holds_when_the_reader_has_gone(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [*program(tmp_path, "return diagnoses.data_bound()"), "analyze", "x", "--fail-on", "critical"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)

    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full exists on Linux only")
def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        command = [*program(tmp_path, "return diagnoses.data_bound()"), "analyze", "x", "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.returncode == 3
    assert done.stderr == "Error: cannot write the output\n  why: No space left on device\n"


def test_ctrl_c_ends_a_running_analysis_with_one_line(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    command = program(tmp_path, f"open({str(ready)!r}, 'w').close()\ntime.sleep(60)")
    with subprocess.Popen([*command, "analyze", "x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 300
        while not ready.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)

    assert (process.returncode, out, err) == (130, b"", b"interrupted\n")


def test_an_ascii_pipe_gets_the_whole_report(tmp_path: Path) -> None:
    command = [*program(tmp_path, "return diagnoses.hostile()"), "analyze", "x"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode("ascii").startswith("verdict ")


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "diagnose", "--version"], capture_output=True, text=True, check=True)

    assert done.stdout == f"diagnose, version {__version__}\n"
