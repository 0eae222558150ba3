"""What a command that is killed, or whose disk is full, leaves: nothing torn, no process, and nothing for good."""

import contextlib
import fcntl
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest
from robustness.killing.moments import Moments
from robustness.killing.tries import Ended, look
from robustness.killing.world import World

from diagnose.cli.whole_file import whole_file
from diagnose.trace.parts import part_of
from diagnose.trace.processes import Worker
from diagnose.trace.scratch import scratch_folder

ROOT = Path(__file__).parent.parent
PATIENCE_S = 900  # longer than any busy machine needs


@pytest.mark.long
def test_a_command_that_ends_at_any_moment_loses_and_leaves_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "robustness.killing", "--only", "ledger", "--how", "kill", "full"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")},
    )  # fmt: skip

    assert (done.returncode, done.stdout.splitlines()[-1].endswith(" 0 wrong")) == (0, True), done.stdout + done.stderr
    assert "| ledger | 8 | 4 |" in done.stdout


def test_a_disk_that_is_full_refuses_what_is_new_and_a_read_only_one_every_change(tmp_path: Path) -> None:
    met: list[int] = []
    full, read_only = Moments("full", 2, met.append), Moments("read-only", 2, met.append)
    changes = [("open", (tmp_path / "a", "w", os.O_WRONLY | os.O_CREAT)), ("os.remove", (tmp_path / "a", -1))]
    for moments in (full, read_only):
        moments._met(*changes[0])
        moments._met("open", ("/dev/null", "w", os.O_WRONLY))

    full._met(*changes[1])
    with pytest.raises(OSError, match="No space left"):
        full._met(*changes[0])
    with pytest.raises(OSError, match="Read-only"):
        read_only._met(*changes[1])
    assert met == [1, 1, 2, 3, 2]


def test_what_is_torn_and_what_stays_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from robustness.killing.commands import COMMANDS

    command = COMMANDS["series"]
    world = World(tmp_path / "world", command)
    (world.place / "out" / "page.html").write_text("<html>")
    (world.place / "tmp" / "left").touch()
    monkeypatch.setattr("robustness.killing.tries.at_moment", lambda *_: Ended(0, "", 0))

    found = look(world, command, Ended(70, "", 0), "full", {"out/page.html"})
    killed = look(world, command, Ended(-9, "", 0), "kill", {"out/page.html"})

    assert found.wrong == ("page.html is torn", "it ended with 70: ", "tmp/left is left")
    assert killed.wrong == ("page.html is torn", "tmp/left stays", "page.html is torn after the next one")
    assert killed.left == ("tmp/left",)


def test_a_finished_run_of_a_tune_that_the_next_one_loses_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robustness.killing.commands import COMMANDS

    command = COMMANDS["series"]
    world = World(tmp_path / "world", command)
    (world.place / "out" / "tune").mkdir()
    state = world.place / "out" / "tune" / "tune.json"
    usual = {"out/tune", "out/tune/tune.json"}
    told: list[tuple[str, ...]] = []
    for after in ('{"rungs": [1, 2, 3]}', '{"rungs": [1]}'):
        state.write_text('{"rungs": [1, 2]}')
        monkeypatch.setattr(
            "robustness.killing.tries.at_moment", lambda *_, now=after: Ended(0, str(state.write_text(now)), 0)
        )
        told.append(look(world, command, Ended(-9, "", 0), "kill", usual).wrong)

    assert told == [(), ("of 2 finished runs not all are kept",)]


def test_a_file_has_no_name_before_it_is_whole(tmp_path: Path) -> None:
    with whole_file(tmp_path / "page.html") as file:
        file.write(b"half")
        file.flush()
        assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".part")] == []

    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_file_that_fails_leaves_the_one_before_it(
    unnamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not unnamed:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    page = tmp_path / "page.html"
    page.write_text("before")
    page.chmod(0o640)
    with pytest.raises(ZeroDivisionError), whole_file(page) as file:
        file.write(b"half" * (1 // 0))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"page.html": "before"}

    with whole_file(page) as file:
        file.write(b"after")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"page.html": "after"}
    assert page.stat().st_mode & 0o777 == 0o640


ALIKE = f".page.html.diagnose-{'0' * 16}-{'0' * 16}.part"
DRAFTS = (".page.html.1.part", ".page.html.draft.part", "page.html.part", ALIKE)


def test_what_a_kill_left_of_a_file_goes_with_the_next_and_what_another_writes_stays(tmp_path: Path) -> None:
    abandoned, in_use, others = part_of("page.html"), part_of("page.html"), part_of("other.html")
    for name in (abandoned, in_use, others, *DRAFTS):
        (tmp_path / name).touch()
    with open(tmp_path / in_use, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with whole_file(tmp_path / "page.html") as file:
            file.write(b"whole")

    assert {path.name for path in tmp_path.iterdir()} == {"page.html", in_use, others, *DRAFTS}


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_part_that_a_kill_left_goes_with_the_next(
    unnamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not unnamed:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    with monkeypatch.context() as killed, contextlib.suppress(ZeroDivisionError):
        killed.setattr(os, "replace", lambda *_: 1 // 0)
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        with whole_file(tmp_path / "page.html") as file:
            file.write(b"half")
    assert len(list(tmp_path.iterdir())) == 1

    with whole_file(tmp_path / "page.html") as file:
        file.write(b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {"page.html"}


def test_a_scratch_folder_goes_with_its_process_or_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, users = tmp_path / part_of("scratch"), tmp_path / "diagnose-scratch-notes"
    for folder in (killed, users):
        folder.mkdir()
        (folder / "0").touch()
    with scratch_folder() as held, scratch_folder() as other:
        assert {path.name for path in tmp_path.iterdir()} == {held.name, other.name, users.name}

    assert [path.name for path in tmp_path.iterdir()] == [users.name]


def test_a_process_of_the_pool_ends_with_who_asked_it_in_the_middle_of_a_task() -> None:
    worker: Worker[float, None] = Worker(time.sleep)
    assert worker.process is not None
    assert worker.process.stdin is not None
    pickle.dump((time.sleep, 10 * PATIENCE_S), worker.process.stdin)
    worker.process.stdin.close()

    code = worker.process.wait(PATIENCE_S)
    worker.stop()

    assert code == 1
