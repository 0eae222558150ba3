"""Nothing that fails beside the command keeps it from running, or changes its exit code."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from harmless.parents import DIAGNOSE, PATIENCE_S, RANK, below, ended, python

from diagnose.cli import main
from diagnose.cli.voice import Voice

ENDS = "print('trained', flush=True); raise SystemExit(4)"
WRITES = RANK + "write()\n" + ENDS


def slow(value: object) -> object:
    """A case that is near another one: it runs where there is time."""
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "name", [".rank-x", slow(".diagnose-x"), slow(".capture-x"), slow(".seen"), "rank7.done", slow("rank0.json.gz")]
)
def test_a_folder_in_the_bundle_with_a_name_like_ours(name: str, tmp_path: Path) -> None:
    body = RANK + f"os.makedirs(given['out'] + '/{name}/x')\n" + ENDS
    done = ended(below(python(tmp_path, body), "--out", "b"), tmp_path)

    assert (done.returncode, done.stdout) == (4, "trained\n")
    assert (tmp_path / "b" / name / "x").is_dir()


@pytest.mark.parametrize(
    "damage",
    [
        slow("shutil.rmtree(given['out'])"),
        "shutil.rmtree(given['out']); open(given['out'], 'w').close()",
        "shutil.rmtree(given['out'] + '/.diagnose'); os.mkfifo(given['out'] + '/.diagnose')",
        slow("os.remove(given['out'] + '/.diagnose/owner'); os.mkfifo(given['out'] + '/.diagnose/owner')"),
        "os.mkfifo(given['out'] + '/rank0.done')",
        slow("open(given['out'] + '/rank0.done', 'w').write('[' * 100_000)"),
        "open(given['out'] + '/rank0.done', 'w').write('{\"world_size\": 1e999, \"trace\": [1]}')",
        "open(given['out'] + '/rank0.done', 'w').write('{\"world_size\": ' + '9' * 30 + '}')",
        slow("os.chmod(given['out'], 0); os.chmod(given['out'] + '/..', 0o500)"),
        "shutil.rmtree(given['out'] + '/.diagnose/seen'); open(given['out'] + '/.diagnose/seen', 'w').close()",
    ],
)
def test_a_bundle_that_the_job_damages(damage: str, tmp_path: Path) -> None:
    done = ended(below(python(tmp_path, RANK + damage + "\n" + ENDS), "--out", "b/c"), tmp_path)
    if (tmp_path / "b" / "c").is_dir():
        (tmp_path / "b").chmod(0o700)
        (tmp_path / "b" / "c").chmod(0o700)

    assert (done.returncode, done.stdout) == (4, "trained\n")
    assert done.stderr.count("\n") <= 2
    assert "Traceback" not in done.stderr


def test_a_working_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = python(tmp_path, "print('trained'); raise SystemExit(4)")[1]
    command = f"rmdir ../gone; exec {' '.join(below([sys.executable, str(tmp_path / script)]))}"
    done = ended(["/bin/sh", "-c", command], tmp_path / "gone")

    assert (done.returncode, done.stdout) == (4, "trained\n")
    assert "capture is off" in done.stderr


def test_a_working_folder_that_goes_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    body = WRITES.replace("write()\n", "write()\nos.rmdir('../gone')\n")
    script = python(tmp_path, body)[1]
    done = ended(below([sys.executable, f"../{script}"], "--out", "../b"), tmp_path / "gone")

    assert done.returncode == 4
    assert "verdict   " in done.stderr


@pytest.mark.parametrize(
    "out", ["/proc/b", slow("/dev/null"), slow("/dev/null/b"), slow("x" * 300), "/", "file", slow("link")]
)
def test_an_out_that_cannot_be_had(out: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    done = ended(below(python(tmp_path, ENDS), "--out", out), tmp_path)

    assert (done.returncode, done.stdout) == (4, "trained\n")
    assert done.stderr.startswith("diagnose: capture is off: ")
    assert done.stderr.count("\n") == 1


def test_an_out_that_is_not_utf_8(tmp_path: Path) -> None:
    done = ended(below(python(tmp_path, WRITES), "--out", os.fsdecode(b"b\xff")), tmp_path)

    assert done.returncode == 4
    assert "verdict   " in done.stderr
    bundle = sorted(os.listdir(tmp_path / os.fsdecode(b"b\xff")))
    assert bundle == ["diagnosis.json", "rank0.done", "rank0.json.gz", "report.txt"]


@pytest.mark.parametrize("file", [slow("no/d.json"), ".", "/dev/full", "fifo", slow("x" * 300)])
def test_a_json_file_that_cannot_be_written(file: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    done = ended(below(python(tmp_path, WRITES), "--out", "b", "--json", file), tmp_path)

    assert done.returncode == 4
    assert "verdict   " in done.stderr
    assert done.stderr.count("diagnose: no --json file: ") == 1
    assert sorted(os.listdir(tmp_path)) == ["b", "fifo", "train.py"]


def test_a_device_as_json_file_stays_one(tmp_path: Path) -> None:
    done = ended(below(python(tmp_path, WRITES), "--json", "/dev/null"), tmp_path)

    assert done.returncode == 4
    assert "diagnose: wrote /dev/null\n" in done.stderr
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    "streams", [slow(">&-"), slow("2>&-"), slow(">&- 2>&-"), "<&- >&- 2>&-", ">/dev/full 2>/dev/full", "| true"]
)
def test_streams_that_are_closed_full_or_broken(streams: str, tmp_path: Path) -> None:
    body = RANK + "write()\nimport time; time.sleep(0.5)\nraise SystemExit(4)"
    command = " ".join(below(python(tmp_path, body), "--out", "b", "--json", "d.json"))
    done = ended(["bash", "-c", f"{command} {streams}; exit ${{PIPESTATUS[0]}}"], tmp_path)

    assert done.returncode == 4, done.stderr
    assert (tmp_path / "d.json").stat().st_size
    assert "Traceback" not in done.stderr


def test_a_reader_that_never_reads_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnose.cli.voice._PATIENCE_S", 0.05)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        voice = Voice(stream)
        voice.say("x" * 200_000)
        voice.say("y")
        assert reader.read(200_001) == b"x" * 200_000 + b"y"  # in order, once somebody reads


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("diagnose.toml", "not toml ="),
        ("diagnose.toml", '[run]\nsteps = "many"\n'),
        ("diagnose.toml", "[run]\nsteps = -3\n"),
        ("diagnose.toml", "[run]\nunknown = 1\n"),
        ("diagnose.toml", 'run = "x"\n'),
        ("diagnose.toml", "x = " + "[" * 500 + "]" * 500),
        ("pyproject.toml", "x = " + "[" * 500 + "]" * 500),
        ("pyproject.toml", "[tool]\ndiagnose = 3\n"),
        ("pyproject.toml", "[tool.diagnose]\nrun = 3\n"),
    ],
)
def test_a_settings_file_that_cannot_be_used(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    done = ended(below(python(tmp_path, ENDS)), tmp_path)

    assert (done.returncode, done.stdout) == (4, "trained\n")
    assert "Traceback" not in done.stderr


def test_no_folder_for_temporary_files(tmp_path: Path) -> None:
    done = ended(below(python(tmp_path, WRITES), "--out", "b"), tmp_path, env={**os.environ, "TMPDIR": "/proc"})

    assert done.returncode == 4
    assert "verdict   " in done.stderr


@pytest.mark.parametrize(
    "name", ["os.nice", "diagnose.commands.run.reporter._run_of", "diagnose.capture.bundle.Bundle.written"]
)
@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "broken"), slow(MemoryError()), slow(RuntimeError("broken"))], ids=repr
)
def test_what_fails_in_the_parent_costs_a_line(
    name: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: object, **options: object) -> None:
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(name, broken)
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    kept = {number: signal.getsignal(number) for number in ending}
    try:
        with pytest.raises(SystemExit) as end:
            main(["run", "--out", "b", "--report", "r.txt", "--", *python(tmp_path, WRITES)])
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTTOU})

    assert end.value.code == 4
    said = capfd.readouterr().err.splitlines()
    assert len([line for line in said if line.startswith("diagnose: no report: ")]) <= 2
    assert len(said) <= 3  # with the file that was written all the same, and the last line


def test_without_room_for_a_process_the_command_takes_our_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Replaced(Exception):
        pass

    def no_process(*args: object, **options: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    def execvpe(file: str, argv: list[str], env: dict[str, str]) -> None:
        assert "PYTHON_DIAGNOSE" not in env
        raise Replaced(file, *argv)

    kept = signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGXFSZ)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", no_process)
    monkeypatch.setattr(os, "execvpe", execvpe)
    monkeypatch.setattr("diagnose.cli.group.exit_code", lambda action: action())
    try:
        with pytest.raises(Replaced) as replaced:
            main(["run", "--out", "b", "--", "train", "-x"])
    finally:
        signal.signal(signal.SIGPIPE, kept[0])
        signal.signal(signal.SIGXFSZ, kept[1])

    assert replaced.value.args == ("train", "train", "-x")
    assert not (tmp_path / "b").exists()


def test_an_environment_that_has_no_room_for_ours(tmp_path: Path) -> None:
    """The kernel takes 128 KiB for one variable: what we add to PYTHONPATH may be too much."""
    path = "/" + "x" * (131_072 - len("PYTHONPATH=") - 2)
    done = ended(below(["/bin/sh", "-c", "echo trained; exit 4"]), tmp_path, env={**os.environ, "PYTHONPATH": path})

    assert (done.returncode, done.stdout) == (4, "trained\n")
    assert done.stderr == "diagnose: capture is off: Argument list too long\n"


def has_ended(pid: str) -> bool:
    """Whether the process is gone, or there only for its parent to ask how it ended."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("number", [signal.SIGINT, slow(signal.SIGTERM), slow(signal.SIGHUP)])
def test_a_signal_after_the_command_ended_ends_the_report_and_not_its_exit_code(number: int, tmp_path: Path) -> None:
    hold = "import time\ndef slow(*args, **options):\n    open('reporting', 'w').close(); time.sleep(60)\n"
    started = (
        hold + "import sys\nfrom diagnose import analysis\nfrom diagnose.cli import main\n"
        f"analysis.analyze = slow\nmain(['run', '--out', 'b', '--', {sys.executable!r}, 'train.py'])\n"
    )
    python(tmp_path, "import os\nopen('job', 'w').write(str(os.getpid()))\n" + WRITES)
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    parent = subprocess.Popen(python(tmp_path, started, "starts.py"), cwd=tmp_path, **options)
    deadline = time.monotonic() + PATIENCE_S
    while not (tmp_path / "reporting").exists() or not has_ended((tmp_path / "job").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    parent.send_signal(number)
    _, err = parent.communicate(timeout=PATIENCE_S)

    assert (parent.returncode, err) == (4, "diagnose: no report: interrupted\n")
    assert sorted(os.listdir(tmp_path / "b")) == ["rank0.done", "rank0.json.gz"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_a_file_system_that_turns_read_only(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    job = python(tmp_path, RANK + "os.system('mount -o remount,ro disk')\n" + ENDS)
    inner = " ".join([*DIAGNOSE, "--out", "disk/b", "--", *job])
    command = f"mount -t tmpfs none disk && {inner}; code=$?; umount -l disk; exit $code"
    done = ended(["unshare", "-m", "sh", "-c", command], tmp_path)
    if "permitted" in done.stderr or "denied" in done.stderr:
        pytest.skip("no mount namespaces here")

    assert (done.returncode, done.stdout) == (4, "trained\n")
