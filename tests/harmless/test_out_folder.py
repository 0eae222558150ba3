"""A folder that holds anything is left alone, and of our own folder only what this run put there is removed."""

import os
import signal
from pathlib import Path

import pytest
from harmless.parents import RANK, below, ended, python

from diagnose.capture.bundle import Bundle

USERS = {
    ".rank0.claim": "mine",
    ".rank-x/kept": "mine",
    ".capture-rank0.json.7.part": "mine",
    ".diagnose-abc.part": "mine",
    ".seen/torch": "",
    ".diagnose/owner": '{"token": "somebody"}',
    ".diagnose/rank0.claim": "mine",
    ".diagnose/seen/torch": "",
    "rank0.json.gz.part": "mine",
    "checkpoint.pt": "mine",
}


def fill(folder: Path, files: dict[str, str] = USERS) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", USERS)
def test_a_folder_that_is_not_empty_is_left_as_it_is(name: str, tmp_path: Path) -> None:
    fill(tmp_path / "b", {name: USERS[name]})
    bundle = Bundle(tmp_path / "b", {})
    bundle.tidy()

    assert (bundle.folder.name, content(tmp_path / "b")) == ("b-2", {name: USERS[name]})
    assert not (tmp_path / "b-2").exists()


def test_the_job_runs_and_is_captured_beside_a_full_folder(tmp_path: Path) -> None:
    fill(tmp_path / "b")
    done = ended(below(python(tmp_path, RANK + "write(); raise SystemExit(4)"), "--out", "b"), tmp_path)

    assert done.returncode == 4
    assert "report    b-2/report.txt" in done.stderr
    assert content(tmp_path / "b") == USERS
    assert sorted(os.listdir(tmp_path / "b-2")) == ["diagnosis.json", "rank0.done", "rank0.json.gz", "report.txt"]


def test_an_empty_folder_of_the_user_is_used_and_stays(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    bundle = Bundle(tmp_path / "b", {})
    bundle.tidy()

    assert bundle.folder == tmp_path / "b"
    assert list((tmp_path / "b").iterdir()) == []


def test_what_was_made_for_an_empty_capture_goes_again(tmp_path: Path) -> None:
    ended(below(["true"], "--out", "a/b/c"), tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_what_the_job_writes_into_the_folder_stays(tmp_path: Path) -> None:
    body = """
out = given["out"]
names = (".rank0.claim", ".rank-x/inner", ".diagnose-x", "x.part", ".diagnose/notes.txt", ".diagnose/seen/notes.txt")
for name in names:
    os.makedirs(os.path.dirname(os.path.join(out, name)), exist_ok=True)
    with open(os.path.join(out, name), "w") as file:
        file.write("mine")
os.mkdir(os.path.join(out, ".diagnose", "results"))
"""
    done = ended(below(python(tmp_path, RANK + body), "--out", "b"), tmp_path)
    kept = {name: text for name, text in content(tmp_path / "b").items() if name != ".diagnose/owner"}

    assert done.returncode == 0
    assert set(kept.values()) == {"mine"}
    assert len(kept) == 6
    assert (tmp_path / "b" / ".diagnose" / "results").is_dir()


def test_no_link_is_followed(tmp_path: Path) -> None:
    fill(tmp_path / "users", {"seen/torch": "", "rank0.claim": "mine", "trace.json": "mine", "owner": "mine"})
    bundle = Bundle(tmp_path / "b", {})
    scratch = bundle.folder / ".diagnose"
    bundle.marks.rmdir()
    (scratch / "seen").symlink_to(tmp_path / "users" / "seen")
    (scratch / "raw-x").symlink_to(tmp_path / "users")
    (scratch / "rank0.claim").symlink_to(tmp_path / "users" / "rank0.claim")
    before = content(tmp_path / "users")
    bundle.tidy()

    assert content(tmp_path / "users") == before


def test_a_scratch_folder_that_is_another_ones_now_is_left_alone(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path / "b", {})
    (bundle.folder / ".diagnose").rename(tmp_path / "ours")
    fill(tmp_path, {"other/owner": '{"token": "other"}', "other/rank0.claim": "theirs"})
    (bundle.folder / ".diagnose").symlink_to(tmp_path / "other")
    bundle.tidy()

    assert content(tmp_path / "other") == {"owner": '{"token": "other"}', "rank0.claim": "theirs"}


def test_what_a_killed_rank_leaves_is_removed_and_said(tmp_path: Path) -> None:
    body = """
import time
from diagnose.probes.bundle.rank_files import RankFiles
bundle = RankFiles(given["out"], 3, 8)
scratch = os.path.join(given["out"], ".diagnose")
os.mkdir(os.path.join(scratch, "raw-abc"))
for name in ("raw-abc/trace.json", "raw-abc/trace.json.tmp", ".rank3.json.gz.77.part", ".capture-rank3.json.77.part"):
    open(os.path.join(scratch, name), "w").close()
os.kill(os.getpid(), 9)
"""
    done = ended(below(python(tmp_path, RANK + body), "--out", "b"), tmp_path)

    assert done.returncode == 128 + signal.SIGKILL
    assert done.stderr == ("diagnose: nothing captured: rank 3 ended inside the window, before its trace was written\n")
    assert not (tmp_path / "b").exists()


def test_a_killed_rank_is_named_beside_the_report_of_the_others(tmp_path: Path) -> None:
    body = """
from diagnose.probes.bundle.rank_files import RankFiles
RankFiles(given["out"], 1, 2)
write(0, 2)
"""
    done = ended(below(python(tmp_path, RANK + body), "--out", "b"), tmp_path)

    assert "verdict   " in done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "diagnose: no trace of rank 1 of 2"
    assert lines[-2] == "diagnose: rank 1 ended inside the window, before its trace was written"
    assert lines[-1].endswith("; report: b/report.txt")
    assert sorted(os.listdir(tmp_path / "b")) == ["diagnosis.json", "rank0.done", "rank0.json.gz", "report.txt"]


def test_a_rank_that_is_killed_when_its_trace_is_written_has_ended_after_its_window(tmp_path: Path) -> None:
    body = """
from diagnose.probes.bundle.rank_files import RankFiles
RankFiles(given["out"], 0, 1)
write()
os.remove(os.path.join(given["out"], "rank0.done"))
os.kill(os.getpid(), 9)
"""
    done = ended(below(python(tmp_path, RANK + body), "--out", "b"), tmp_path)

    assert "verdict   " in done.stderr
    assert "ended inside the window" not in done.stderr
    assert done.stderr.splitlines()[-2] == (
        "diagnose: rank 0 ended after the window, before its record was complete: what only that tells is not judged"
    )


def test_a_second_window_is_tidied_too(tmp_path: Path) -> None:
    body = """
from diagnose.probes.bundle.rank_files import RankFiles
write()
RankFiles(given["out"], 0, 1).finish("no steps")
RankFiles(given["out"], 0, 1)
"""
    done = ended(below(python(tmp_path, RANK + body), "--out", "b"), tmp_path)

    assert "more windows, for `diagnose analyze`: b-2" in done.stderr
    assert {name: sorted(os.listdir(tmp_path / name)) for name in ("b", "b-2", "b-3")} == {
        "b": ["diagnosis.json", "rank0.done", "rank0.json.gz", "report.txt"],
        "b-2": ["rank0.done"],
        "b-3": [],
    }
