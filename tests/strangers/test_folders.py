"""Folders with several windows of a process: the last is diagnosed, and the others stand beside it.

`two-windows-one-process` is cut from a public capture; ids, stacks, paths and host names are removed.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from diagnose import analysis
from diagnose.cli import main
from diagnose.errors import UserError, WrongUsage
from diagnose.trace import Loading, find_run

HERE = Path(__file__).parent
STRANGERS = HERE / "two-windows-one-process"
NS = 10**9
BEGAN_S = 1_752_215_573


def window(pid: int, at_s: float, steps: tuple[int, ...], rank: int | None = None, host: str = "") -> dict[str, Any]:
    """A trace of torch 2 as Kineto writes it: absolute times, the process in each event."""
    marks = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": pid, "tid": pid}
        | {"ts": (BEGAN_S + at_s) * 1e6 + 1000 * at, "dur": 1000}
        for at, step in enumerate(steps)
    ]
    operators = [mark | {"cat": "cpu_op", "name": "aten::mm", "dur": 500} for mark in marks]
    stated = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}}
    return {**({"host_name": host} if host else {}), **stated, "traceEvents": marks + operators}


def named(worker: str, at_s: float) -> str:
    return f"{worker}.{int((BEGAN_S + at_s) * NS)}.pt.trace.json"


def folder_of(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return folder


def steps_of(folder: Path, run: str | None = None) -> tuple[int, ...]:
    """The counted steps: those of a window without its first."""
    return analysis.analyze(folder, options=analysis.Options(run=run)).steps.numbers


# --- one process


def test_of_two_windows_the_last_is_diagnosed_and_the_other_is_named_with_process_and_time() -> None:
    told = " ".join(CliRunner().invoke(main, ["analyze", str(STRANGERS)]).output.split())

    assert "scope 2 steps" in told
    assert "this report is of the last of 2 windows of process 851 on node: steps 7, 8, 867.5 us per step" in told
    assert "steps 2, 3, 856.5 us per step, began 2025-07-11 06:32:53 UTC, 1.3 % shorter" in told
    assert "--run node.pt.trace@1" in told


def test_the_other_window_is_diagnosed_by_its_name_and_by_its_file() -> None:
    first = min(STRANGERS.iterdir()).name

    assert steps_of(STRANGERS, "node.pt.trace@1") == (2, 3)
    assert steps_of(STRANGERS, first) == (2, 3)
    assert steps_of(STRANGERS / first) == (2, 3)


def test_a_class_that_takes_longer_in_another_window_is_named(tmp_path: Path) -> None:
    slow = window(7, 0, (1, 2, 3))
    slow["traceEvents"] = [
        event | {"dur": event["dur"] + 400 * (event["cat"] == "cpu_op")} for event in slow["traceEvents"]
    ]
    folder = folder_of(tmp_path, {named("n_7", 0): slow, named("n_7", 9): window(7, 9, (6, 7, 8))})

    told = " ".join(CliRunner().invoke(main, ["analyze", str(folder)]).output.split())

    assert "as long as the reported one's; host takes 100.0 us, not 500.0 us" in told


@pytest.mark.parametrize("worker", ["n_7", "rank0", "exp_2", "my-run"])
def test_windows_of_a_worker_whatever_its_name(worker: str, tmp_path: Path) -> None:
    files = {named(worker, at): window(7, at, (5 * at + 1, 5 * at + 2, 5 * at + 3)) for at in (0, 1, 2)}

    assert steps_of(folder_of(tmp_path, files)) == (12, 13)


@pytest.mark.parametrize(
    "name",
    [
        "trace_{}.json",
        "step{}/rank0_trace.json",
        "iteration_{}/profile_0.json",
        "worker0_step_{}.1752215573993.pt.trace.json",
    ],
)
def test_windows_that_a_handler_of_the_users_names_by_steps(name: str, tmp_path: Path) -> None:
    files = {name.format(5 * at): window(7, at, (5 * at + 1, 5 * at + 2, 5 * at + 3)) for at in (2, 0, 1)}

    assert steps_of(folder_of(tmp_path, files)) == (12, 13)


def test_a_window_that_cannot_be_read_does_not_take_the_report_away(tmp_path: Path) -> None:
    files = {named("n_7", at): window(7, at, (5 * at + 1, 5 * at + 2, 5 * at + 3)) for at in (0, 1)}
    folder = folder_of(tmp_path, files)
    first = folder / named("n_7", 0)
    first.write_text(json.dumps({"traceEvents": window(7, 0, (1,))["traceEvents"][:1]}))

    diagnosis = analysis.analyze(folder)

    assert diagnosis.steps.numbers == (7, 8)
    assert [(each.is_reported, each.numbers) for each in diagnosis.windows] == [(False, (1,)), (True, (7, 8))]


def test_a_last_window_in_which_the_training_ended_is_not_the_one(tmp_path: Path) -> None:
    files = {named("n_7", at): window(7, at, (5 * at + 1, 5 * at + 2, 5 * at + 3)) for at in (0, 1)}
    folder = folder_of(tmp_path, files | {named("n_7", 2): window(7, 2, (11, 12))})

    told = " ".join(CliRunner().invoke(main, ["analyze", str(folder)]).output.split())

    assert "this report is of the last whole one of 3 windows of process 7 on n: steps 7, 8" in told
    assert "steps 11, 12, 1.0 ms per step, began 2025-07-11 06:32:55 UTC, cut short" in told
    assert steps_of(folder, "n.pt.trace@3") == (11, 12)


def test_a_step_that_the_profiler_opens_and_the_training_never_begins_is_not_counted(tmp_path: Path) -> None:
    trace = window(7, 0, (1, 2, 3))
    trace["traceEvents"] = [
        e for e in trace["traceEvents"] if e["cat"] != "cpu_op" or e["ts"] < (BEGAN_S + 0.0015) * 1e6
    ]

    assert steps_of(folder_of(tmp_path, {"trace.json": trace})) == (1, 2)


def test_only_the_latest_windows_are_read_and_with_little_memory_none(tmp_path: Path) -> None:
    files = {named("n_7", at): window(7, at, (5 * at + 1, 5 * at + 2, 5 * at + 3)) for at in range(10)}
    folder = folder_of(tmp_path, files)
    little = analysis.Options(loading=Loading(memory_bytes=1 << 30))

    read = [each.step_ns is not None for each in analysis.analyze(folder).windows]
    read_with_little = [each.step_ns is not None for each in analysis.analyze(folder, options=little).windows]

    assert read == [False] * 2 + [True] * 8
    assert read_with_little == [False] * 9 + [True]


# --- several runs


def test_runs_of_two_processes_are_a_choice_that_names_process_host_and_time(tmp_path: Path) -> None:
    files = {named(f"n_{pid}", at): window(pid, at, (1, 2, 3)) for pid, at in ((7, 0), (7, 1), (8, 60), (8, 61))}
    folder = folder_of(tmp_path, files)

    with pytest.raises(UserError) as error:
        find_run(folder)

    assert "(2 files in 2 windows, process 7 on n, 2025-07-11 06:32:53 UTC to 2025-07-11 06:32:54 UTC)" in str(
        error.value
    )
    assert "(2 files in 2 windows, process 8 on n, 2025-07-11 06:33:53 UTC" in str(error.value)
    assert find_run(folder, "n.pt.trace@2").files[0].path.name == named("n_8", 61)
    assert find_run(folder, "n.pt.trace@1@1").files[0].path.name == named("n_7", 0)


def test_the_same_worker_name_in_two_processes_is_two_runs(tmp_path: Path) -> None:
    files = {named("rank0", at): window(pid, at, (1, 2, 3)) for pid, at in ((7, 0), (8, 60))}

    with pytest.raises(UserError, match=r"(?s)2 runs.*process 7, .*process 8, "):
        find_run(folder_of(tmp_path, files))


@pytest.mark.parametrize("name", ["rank0.json", named("n_1", 0)])
def test_files_of_one_number_whose_steps_begin_again_are_runs(name: str, tmp_path: Path) -> None:
    files = {f"run{at}/{name}": window(1, at, (1, 2, 3)) for at in (1, 2)}

    with pytest.raises(UserError, match="2 runs in one folder"):
        find_run(folder_of(tmp_path, files))


def test_an_unknown_window_lists_runs_and_windows() -> None:
    with pytest.raises(WrongUsage, match=r"node\.pt\.trace@1, node\.pt\.trace@2"):
        find_run(STRANGERS, "node.pt.trace@3")


# --- several ranks


def ranks(tmp_path: Path, windows: dict[int, tuple[int, ...]]) -> Path:
    """A folder with the windows of each rank, by their numbers; window n begins with step 5 n, at second 10 n."""
    files = {
        named(f"n_{70 + rank}", 10 * at + rank / 10): window(70 + rank, 10 * at, (5 * at, 5 * at + 1, 5 * at + 2), rank)
        for rank, held in windows.items()
        for at in held
    }
    return folder_of(tmp_path, files)


def test_the_last_window_of_each_rank(tmp_path: Path) -> None:
    run = find_run(ranks(tmp_path, {0: (1, 2, 3), 1: (1, 2, 3)}))

    assert [(file.rank, min(file.by.steps)) for file in run.files] == [(0, 15), (1, 15)]
    assert [len(each.files) for each in run.windows] == [2, 2, 2]


@pytest.mark.parametrize(
    ("windows", "last"),
    [
        ({0: (1, 2, 3), 1: (1, 2)}, 2),
        ({0: (1, 3), 1: (1, 2)}, 1),
        ({0: (1, 3), 1: (2, 3)}, 3),
        ({0: (3,), 1: (1, 3)}, 3),
    ],
)
def test_the_last_window_that_all_ranks_have(windows: dict[int, tuple[int, ...]], last: int, tmp_path: Path) -> None:
    run = find_run(ranks(tmp_path, windows))

    assert [(file.rank, min(file.by.steps)) for file in run.files] == [(0, 5 * last), (1, 5 * last)]


def test_a_run_that_lacks_a_rank_takes_none_of_another(tmp_path: Path) -> None:
    files = {
        named(f"n_{pid}", at): window(pid, at, (1, 2, 3), rank) for pid, at, rank in ((7, 0, 0), (8, 60, 0), (9, 60, 1))
    }

    folder = folder_of(tmp_path, files)

    assert [file.rank for file in find_run(folder, "n.pt.trace@1").files] == [0]
    assert [file.by.pid for file in find_run(folder, "n.pt.trace@2").files] == [8, 9]


# --- as real processes write them


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`alone/` is written by a process, `ranks/` by two ranks, and `runs/` by two processes, one after the other."""
    place = tmp_path_factory.mktemp("written")
    for ranks, folder in ((1, "alone"), (1, "again"), (2, "ranks")):
        words = [
            sys.executable,
            str(HERE / "profiled_windows.py"),
            str(ranks),
            str(place / folder),
            str(place / "meet"),
        ]
        subprocess.run(words, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    for folder in ("alone", "again"):
        shutil.copytree(place / folder / "handler", place / "runs", dirs_exist_ok=True)
    return place


@pytest.mark.capture
@pytest.mark.slow
@pytest.mark.parametrize("folder", ["handler", "named", "iterations"])
@pytest.mark.parametrize("job", ["alone", "ranks"])
def test_windows_of_a_real_process(job: str, folder: str, written: Path) -> None:
    diagnosis = analysis.analyze(written / job / folder)

    assert diagnosis.steps.numbers == (6, 7)
    assert [each.numbers for each in diagnosis.windows] == [(2, 3), (6, 7)]
    assert len(diagnosis.ranks) == (2 if job == "ranks" else 1)
    assert all("process" in each.process and each.began for each in diagnosis.windows)
    assert steps_of(written / job / folder, diagnosis.windows[0].name) == (2, 3)


@pytest.mark.capture
@pytest.mark.slow
@pytest.mark.parametrize("job", ["alone", "ranks"])
def test_a_real_process_that_ends_in_a_window(job: str, written: Path) -> None:
    diagnosis = analysis.analyze(written / job / "cut")

    assert diagnosis.steps.numbers == (6, 7)
    assert [(each.numbers, each.is_cut) for each in diagnosis.windows] == [
        ((2, 3), False),
        ((6, 7), False),
        ((10,), True),
    ]


@pytest.mark.capture
@pytest.mark.slow
def test_two_real_processes_in_one_folder_are_a_choice(written: Path) -> None:
    answer = CliRunner().invoke(main, ["analyze", str(written / "runs")])

    assert answer.exit_code == 3
    assert answer.output.count("2 files in 2 windows, process ") == 2
