"""Two runs into one folder at once never meet: each claims its own, and reports of its own only."""

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from harmless.parents import PATIENCE_S, RANK, TRACE, below, ended, python

from diagnose.capture.bundle import Bundle
from diagnose.probes.bundle.rank_files import RankFiles

STEP = {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3"}


def rank_of(bundle: Bundle, monkeypatch: pytest.MonkeyPatch, rank: int = 0, world_size: int = 1) -> RankFiles:
    """A rank below the parent that has claimed the bundle."""
    monkeypatch.setenv("PYTHON_DIAGNOSE", json.dumps({"out": str(bundle.folder), "token": bundle.token}))
    return RankFiles(str(bundle.folder), rank, world_size)


def test_each_of_two_runs_reports_its_own(tmp_path: Path) -> None:
    """Both wait for the other to have begun; one writes a trace, the other ends with an error of its own."""
    meet = """
import time
open(sys.argv[1], "w").close()
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
"""
    first = python(tmp_path, RANK + meet + "write()", "first.py")
    second = python(tmp_path, RANK + meet + "write(trace=False, error='the second one fails')", "second.py")
    options: dict[str, Any] = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = [
        subprocess.Popen(below([*first, "a", "b"], "--out", "o"), **options),
        subprocess.Popen(below([*second, "b", "a"], "--out", "o"), **options),
    ]
    (out, err), (other_out, other_err) = [run.communicate(timeout=PATIENCE_S) for run in runs]

    assert out == ""
    assert "verdict   " in err
    assert (other_out, other_err) == ("", "diagnose: nothing captured: the second one fails\n")
    assert sorted(path.name for path in tmp_path.glob("o*")) == ["o", "o-2"]


def test_of_many_parents_each_claims_another_folder(tmp_path: Path) -> None:
    found: list[Bundle] = []
    begin = threading.Barrier(12)

    def claim() -> None:
        begin.wait()
        found.append(Bundle(tmp_path / "o", {}))

    threads = [threading.Thread(target=claim) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {bundle.folder.name for bundle in found} == {"o", *(f"o-{number}" for number in range(2, 13))}
    assert len({bundle.token for bundle in found}) == 12


def test_markers_of_another_run_are_not_ours(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path / "o", {})
    marker = {"rank": 0, "world_size": 1, "trace": "rank0.json.gz", "error": None}
    (bundle.folder / "rank0.done").write_text(json.dumps(marker | {"token": "other"}))
    assert bundle.written().traces == {}

    (bundle.folder / "rank0.done").write_text(json.dumps(marker | {"token": bundle.token}))
    assert bundle.written().traces == {0: "rank0.json.gz"}


def test_a_further_window_does_not_go_into_the_folder_of_the_other_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Bundle(tmp_path / "o", {}) for _ in range(2))
    for _ in range(2):
        rank_of(first, monkeypatch).finish("no steps")

    assert [path.name for path in first.further_windows()] == ["o-3"]
    assert second.further_windows() == []
    assert second.written().errors == {}
    assert list(second.folder.glob("rank*")) == []


def test_without_a_parent_a_claimed_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHON_DIAGNOSE", raising=False)
    first = RankFiles(str(tmp_path / "o"), 0, 1)
    first.finish("no steps")
    Bundle(tmp_path / "o", {})
    again = RankFiles(str(tmp_path / "o"), 0, 1)

    assert (first.folder.name, again.folder.name) == ("o", "o-3")
    assert "token" not in json.loads((first.folder / "rank0.done").read_text())


def test_parents_of_one_job_share_one_folder_and_the_last_one_tidies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = [Bundle(tmp_path / "o", STEP | {"SLURM_PROCID": str(rank)}) for rank in range(3)]
    for rank, parent in enumerate(parents):
        rank_of(parent, monkeypatch, rank, 3).finish("no steps")
        parent.tidy()
        assert (tmp_path / "o" / ".diagnose").exists() == (rank < 2)

    assert {parent.folder.name for parent in parents} == {"o"}
    assert set(parents[0].written().errors) == {0, 1, 2}
    assert sorted(os.listdir(tmp_path / "o")) == ["rank0.done", "rank1.done", "rank2.done"]


def test_parents_of_one_job_go_round_a_full_folder_together(tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "mine").touch()
    parents = [Bundle(tmp_path / "o", STEP | {"SLURM_PROCID": str(rank)}) for rank in (2, 0, 1)]

    assert {parent.folder.name for parent in parents} == {"o-2"}


def test_parents_of_two_jobs_do_not_share(tmp_path: Path) -> None:
    other = STEP | {"SLURM_JOB_ID": "18"}
    requeued = STEP | {"SLURM_RESTART_COUNT": "1"}
    folders = [
        [Bundle(tmp_path / "o", job | {"SLURM_PROCID": str(rank)}).folder.name for job in (STEP, other, requeued)]
        for rank in (0, 1)
    ]

    assert folders == [["o", "o-2", "o-3"]] * 2


def test_a_second_run_with_the_names_of_the_first_goes_beside_it(tmp_path: Path) -> None:
    """Of a job that only MASTER_ADDR and MASTER_PORT name, the next one has the same."""
    job = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "WORLD_SIZE": "2"}
    for expected in ("o", "o-2"):
        for rank in ("0", "1"):
            assert Bundle(tmp_path / "o", job | {"RANK": rank}).folder.name == expected


def test_a_report_is_not_of_the_traces_that_were_there(tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / TRACE.name).write_bytes(TRACE.read_bytes())
    done = ended(below(["true"], "--out", "o"), tmp_path)

    assert done.stdout == ""
    assert done.stderr.startswith("diagnose: nothing captured: ")
