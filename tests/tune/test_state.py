"""The folder of a tune: what it holds is whole, and nobody measures beside a tune that is at work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from diagnose.commands.tune.answer import Rung, Tuning
from diagnose.commands.tune.state import TuneFolder, folder_for
from diagnose.errors import UserError
from diagnose.trace.parts import part_of

FIRST = Tuning(command=("train.py",), rungs=(Rung(number=0, change="as it is", outcome="ok", decision="first"),))


def test_the_runs_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    TuneFolder(tmp_path / "tune").write(FIRST)

    assert TuneFolder(tmp_path / "tune").read() == FIRST
    assert TuneFolder(tmp_path / "other").read() is None


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = TuneFolder(tmp_path)
    folder.write(FIRST)

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        folder.write(replace(FIRST, why_ended="done"))

    assert folder.read() == FIRST
    assert {path.name for path in tmp_path.iterdir()} == {"tune.json", "tune.lock"}


def test_what_a_kill_left_of_a_file_goes_when_the_folder_is_taken(tmp_path: Path) -> None:
    folder = TuneFolder(tmp_path)
    folder.write(FIRST)
    for name in (part_of("tune.json"), part_of("patch.json"), ".tune.json.abc.part", ".draft.part"):
        (tmp_path / name).write_text("{")
    folder.lock()

    left = {"tune.json", "tune.lock", ".tune.json.abc.part", ".draft.part"}
    assert {path.name for path in tmp_path.iterdir()} == left


@pytest.mark.parametrize(
    "users", ["patch.json", "ladder.csv", "run-0.json", "run-0.log", "tune.html", "tune.json", "tune.lock", ".x.part"]
)
def test_a_folder_with_other_files_is_left_alone(users: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / users).write_text("mine")

    place = folder_for(tmp_path / "work")
    TuneFolder(place).lock()

    assert place == tmp_path / "work-2" == folder_for(tmp_path / "work")
    assert {path.name: path.read_text() for path in (tmp_path / "work").iterdir()} == {users: "mine"}


def test_an_empty_folder_and_that_of_a_tune_are_taken(tmp_path: Path) -> None:
    for name in ("empty", "killed early", "with runs"):
        (tmp_path / name).mkdir()
    TuneFolder(tmp_path / "killed early")
    (tmp_path / "killed early" / "run-0.log").touch()
    TuneFolder(tmp_path / "with runs").write(FIRST)
    (tmp_path / "with runs" / "tune.lock").write_bytes(b"")

    for name in ("none yet", "empty", "killed early", "with runs"):
        assert folder_for(tmp_path / name) == tmp_path / name


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"plan": []}', "this is not the state of a tune"),
        (b"{", "this is not the state of a tune"),
        (b'{"command": ["\xff"]}', "this is not the state of a tune"),
        (b'{"schema_version": 99, "command": ["a"]}', "its schema_version is 99, not 1"),
    ],
)
def test_a_file_of_others_is_refused(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "tune.json").write_bytes(content)

    with pytest.raises(UserError, match=why):
        TuneFolder(tmp_path).read()


def test_the_folder_is_one_tunes_as_long_as_it_or_its_job_lives(tmp_path: Path) -> None:
    folder = TuneFolder(tmp_path)
    folder.lock()
    job = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    os.close(folder._lock)  # as a kill does

    with pytest.raises(UserError, match="or a job that it left"):
        TuneFolder(tmp_path).lock(patience_s=0.0)
    waits: list[bool] = []
    with pytest.raises(UserError):
        TuneFolder(tmp_path).lock(patience_s=0.01, waits=lambda: waits.append(True))
    job.communicate(b"\n")
    TuneFolder(tmp_path).lock(patience_s=0.0, waits=lambda: waits.append(False))
    assert waits == [True]
