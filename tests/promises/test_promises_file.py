"""The file of promises: many may append to it, damage costs a line, and what is not the user's own is left alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kept_promises import promise

from diagnose.cli.users_data import default_folder
from diagnose.commands.ledger import file
from diagnose.commands.ledger.keeping import RecordOutcome, record, recorded_predictions
from diagnose.commands.ledger.lines import LONGEST_LINE, RecordedPredictions, line_of, prediction_in, predictions_of
from diagnose.trace.parts import part_of

APPENDS = """
import sys
from kept_promises import promise
from diagnose.commands.ledger import file
from diagnose.commands.ledger.keeping import record
file.PATIENCE_S = 300
for number in range(int(sys.argv[1]), int(sys.argv[1]) + 25):
    done = record(promise(number))
    assert done.done, done
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the promises of this test are kept; it is not there yet."""
    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")
    monkeypatch.setenv("DIAGNOSE_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def test_what_is_appended_is_kept_once(folder: Path) -> None:
    assert recorded_predictions() == RecordedPredictions()
    assert record(promise(1)) == RecordOutcome(True)
    assert record(promise(2)) == RecordOutcome(True)
    assert record(promise(1, source="compare")) == RecordOutcome(False, "it is kept already")

    assert recorded_predictions() == RecordedPredictions((promise(1), promise(2)))


def test_folder_and_file_are_the_users_alone(folder: Path) -> None:
    record(promise())

    assert [path.stat().st_mode & 0o777 for path in (folder, folder / file.NAME)] == [0o700, 0o600]
    assert [path.name for path in folder.iterdir()] == [file.NAME]


@pytest.mark.long
def test_eight_processes_append_at_once(folder: Path) -> None:
    tests = str(Path(__file__).parents[1])
    path = os.pathsep.join([tests, *sys.path])
    writers = [
        subprocess.Popen([sys.executable, "-c", APPENDS, str(100 * i)], env={**os.environ, "PYTHONPATH": path})
        for i in range(8)
    ]

    assert [writer.wait(timeout=300) for writer in writers] == [0] * 8
    numbers = sorted(int(found.key, 16) for found in recorded_predictions().predictions)
    assert numbers == [100 * i + k for i in range(8) for k in range(25)]
    assert recorded_predictions().unreadable == 0


def test_a_writer_waits_for_another_and_not_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(promise(1))
    holds = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(); sys.stdin.read()"
    command = [sys.executable, "-c", holds, str(folder / file.NAME)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        monkeypatch.setattr(file, "PATIENCE_S", 0.1)
        held = record(promise(2))
        other.communicate()

    assert held == RecordOutcome(False, "another process keeps it locked", failed=True)
    assert record(promise(2)).done


def test_a_torn_line_costs_itself_alone(folder: Path) -> None:
    record(promise(1))
    with (folder / file.NAME).open("ab") as torn:
        torn.write(line_of(promise(2))[:40])

    record(promise(3))

    assert recorded_predictions() == RecordedPredictions((promise(1), promise(3)), unreadable=1)


def test_a_first_line_that_is_torn_does_not_end_the_ledger(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / file.NAME).write_bytes(line_of(promise(1))[:40])

    assert record(promise(2)).done
    assert recorded_predictions() == RecordedPredictions((promise(2),), unreadable=1)


LINE = line_of(promise(1)).decode()


@pytest.mark.parametrize(
    "damaged",
    [
        b"\xff\x00 \xc3",
        b"[" * 4000,
        b'{"format":1}',
        b"null",
        LINE.replace('"format":1', '"format":2').encode(),
        LINE.replace("1.4,", "1e400,").encode(),
        LINE.replace("1.4,", "NaN,").encode(),
        LINE.replace("1.4,", "-1.4,").encode(),
        LINE.replace("1.4,", "null,").encode(),
        LINE.replace("[1.3,null,1.5]", "[1.5,null,1.3]").encode(),
        LINE.replace("[1.3,null,1.5]", "[1.3,1.5]").encode(),
        LINE.replace('"ranks":8', '"ranks":1e99').encode(),
        LINE.replace("data-wait", "../../etc/passwd").encode(),
        LINE.replace("2026-05-04", "2026-13-41").encode(),
        LINE.replace('"apply"', '"mail"').encode(),
        LINE.replace('"hardware"', f'"{"x" * LONGEST_LINE}":0,"hardware"').encode(),
    ],
)
def test_a_damaged_line_is_counted_and_no_promise(damaged: bytes, folder: Path) -> None:
    content = line_of(promise(7)) + damaged.strip() + b"\n" + line_of(promise(8))

    assert prediction_in(damaged) is None
    assert predictions_of(content) == RecordedPredictions((promise(7), promise(8)), unreadable=1)


def test_whether_a_promise_was_kept_is_not_believed_but_seen() -> None:
    boasting = LINE.replace("[1.38,1.4,1.42]", "[null,0.7,null]")

    found = prediction_in(boasting.encode())

    assert found is not None
    assert '"inside":true' in boasting
    assert not found.inside


def test_names_from_a_line_drive_no_terminal() -> None:
    found = prediction_in(line_of(promise(hardware="\x1b]0;gone\x07" + "H100 " * 100)))

    assert found is not None
    assert found.hardware.isprintable()
    assert len(found.hardware) == 80


def test_the_oldest_go_from_a_full_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "LARGEST_BYTES", 10 * len(line_of(promise())))
    folder.mkdir(mode=0o700)
    (folder / part_of(file.NAME)).touch()  # what a kill left
    (folder / f".{file.NAME}.abc").touch()  # what a user did
    for number in range(30):
        assert record(promise(number)).done

    numbers = [int(found.key, 16) for found in recorded_predictions().predictions]
    assert numbers[-1] == 29
    assert numbers == list(range(numbers[0], 30))
    assert 4 <= len(numbers) <= 10
    assert (folder / file.NAME).stat().st_mode & 0o777 == 0o600
    assert {path.name for path in folder.iterdir()} == {file.NAME, f".{file.NAME}.abc"}


def test_a_file_that_was_replaced_while_a_writer_waited_is_opened_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(promise(1))
    lock = file._lock

    def replaced_meanwhile(handle: int, until: float) -> None:
        monkeypatch.setattr(file, "_lock", lock)
        (folder / file.NAME).rename(folder / "aside")
        lock(handle, until)

    monkeypatch.setattr(file, "_lock", replaced_meanwhile)
    record(promise(2))

    assert recorded_predictions().predictions == (promise(2),)
    assert predictions_of((folder / "aside").read_bytes()).predictions == (promise(1),)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_fails_nothing(folder: Path) -> None:
    folder.mkdir(mode=0o500)

    assert record(promise()) == RecordOutcome(False, "Permission denied", failed=True)


def test_where_no_folder_can_be_made_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")
    monkeypatch.setenv("DIAGNOSE_DATA_DIR", "/proc/diagnose")

    assert record(promise()) == RecordOutcome(False, "No such file or directory", failed=True)


def test_a_full_disk_leaves_no_half_of_a_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(promise(1))
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, line: write(file, line[:40]))

    assert record(promise(2)) == RecordOutcome(False, "No space left on device", failed=True)
    assert recorded_predictions() == RecordedPredictions((promise(1),))


def test_a_file_in_the_place_of_the_folder_fails_nothing(folder: Path) -> None:
    folder.write_text("mine")

    assert record(promise()).failed
    assert recorded_predictions() == RecordedPredictions()
    assert folder.read_text() == "mine"


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    theirs = tmp_path / "elsewhere" / file.NAME
    theirs.write_bytes(line_of(promise(1)))
    folder.symlink_to(tmp_path / "elsewhere")
    by_folder = record(promise(2))
    folder.unlink()
    folder.mkdir(mode=0o700)
    (folder / file.NAME).symlink_to(theirs)

    assert by_folder == RecordOutcome(False, "a link, or no folder", failed=True)
    assert record(promise(2)) == RecordOutcome(False, "a link", failed=True)
    assert recorded_predictions() == RecordedPredictions()
    assert theirs.read_bytes() == line_of(promise(1))


@pytest.mark.parametrize("kind", ["another's text", "a pipe", "others may write", "others may write into the folder"])
def test_what_is_not_the_users_own_ledger_is_not_touched(kind: str, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    path, content = folder / file.NAME, line_of(promise(1))
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        content = b"notes of mine\n" if kind == "another's text" else content
        path.write_bytes(content)
        os.chmod(path, 0o666 if kind == "others may write" else 0o600)
    if kind == "others may write into the folder":
        os.chmod(folder, 0o777)

    assert record(promise(2)).failed
    assert recorded_predictions() == RecordedPredictions()
    with pytest.raises(OSError, match=r"\w"):
        file.clear(folder)
    assert kind == "a pipe" or path.read_bytes() == content


def test_a_file_larger_than_any_ledger_is_not_read(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    with (folder / file.NAME).open("wb") as large:
        large.write(line_of(promise(1)))
        large.truncate(1 << 40)

    assert record(promise(2)) == RecordOutcome(False, "larger than any ledger of promises", failed=True)
    assert recorded_predictions() == RecordedPredictions()


def test_the_folder_is_that_of_the_users_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DIAGNOSE_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    plain = default_folder()
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    relative = default_folder()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))

    assert plain == relative == tmp_path / ".local" / "share" / "diagnose"
    assert default_folder() == tmp_path / "xdg" / "diagnose"
