"""Which files of a folder make one run."""

import json
import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace as Job

from diagnose.errors import UserError
from diagnose.trace import find_run, read, source
from diagnose.trace.discover import runs_of, trace_files

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
TIMES = count(1)


def trace_of(rank: int | None = None, *, behind: bool = False) -> dict[str, Any]:
    """A trace, of another time than all others, that states its rank before or behind the events, or not at all."""
    event = EVENT | {"ts": next(TIMES)}
    stated = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}}
    return {"traceEvents": [event], **stated} if behind else {**stated, "traceEvents": [event]}


def folder_of(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def found(folder: Path, run: str | None = None) -> list[tuple[str, int | None]]:
    return [(file.path.name, file.rank) for file in find_run(folder, run).files]


def test_a_file(tmp_path: Path) -> None:
    folder_of(tmp_path, {"rank3.json": trace_of()})
    assert found(tmp_path / "rank3.json") == [("rank3.json", 3)]


def test_metadata_beats_the_name(tmp_path: Path) -> None:
    assert found(folder_of(tmp_path, {"rank3.json": trace_of(5)})) == [("rank3.json", 5)]


@pytest.mark.parametrize("pattern", ["rank{}", "rank_0{}", "worker{}", "rank-{}", "trace.rank.{}", "run_RANK{}_x"])
def test_ranks_by_name(pattern: str, tmp_path: Path) -> None:
    names = [f"{pattern.format(rank)}.json" for rank in (2, 0, 1)]
    folder = folder_of(tmp_path, {name: trace_of() for name in names})
    assert [rank for _, rank in found(folder)] == [0, 1, 2]


@pytest.mark.parametrize("behind", [False, True], ids=["before the events", "behind the events"])
@pytest.mark.parametrize("block_bytes", [50, 1 << 19])
def test_ranks_by_metadata(behind: bool, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    folder = folder_of(tmp_path, {"b.json": trace_of(0, behind=behind), "a.json": trace_of(1, behind=behind)})
    assert found(folder) == [("b.json", 0), ("a.json", 1)]


def test_ranks_written_by_kineto(tmp_path: Path) -> None:
    for rank in range(2):
        job = Job(rank=rank, world=2)
        job.op("aten::mm", kernel="gemm", gpu_us=5)
        job.write(tmp_path / f"host_{400 + rank}.{1694128201545 + rank}.pt.trace.json.gz")
    assert [rank for _, rank in found(tmp_path)] == [0, 1]


def test_two_runs_by_their_names(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path, {f"{run}_rank{rank}.json": trace_of(rank) for run in ("fast", "slow") for rank in (0, 1)}
    )
    with pytest.raises(
        UserError, match=r"(?s)2 runs in one folder.*--run fast_rank\*  \(2 files, process 1\)\n.*--run slow_rank\*"
    ):
        find_run(folder)
    assert found(folder, "slow_rank*") == [("slow_rank0.json", 0), ("slow_rank1.json", 1)]


def test_two_runs_of_tensorboard_trace_handler(tmp_path: Path) -> None:
    """Names of host, process and time only: the n-th file of each rank belongs to the n-th run."""
    stamps = {(0, 0): 1694128201545, (0, 1): 1694128201551, (1, 0): 1694129900100, (1, 1): 1694129900090}
    files = {f"node_{run}7{rank}.{stamp}.pt.trace.json": trace_of(rank) for (run, rank), stamp in stamps.items()}
    folder = folder_of(tmp_path, files)
    with pytest.raises(UserError, match=r"--run node\.pt\.trace@1  \(2 file"):
        find_run(folder)
    assert found(folder, "node.pt.trace@2") == [
        ("node_170.1694129900100.pt.trace.json", 0),
        ("node_171.1694129900090.pt.trace.json", 1),
    ]


def test_repeated_captures_of_each_worker(tmp_path: Path) -> None:
    names = [f"worker{rank}.{stamp}.pt.trace.json" for rank in (0, 1) for stamp in (1694128201545, 1694128301545)]
    folder = folder_of(tmp_path, {name: trace_of() for name in names})
    assert found(folder, "worker*.pt.trace@1") == [
        ("worker0.1694128201545.pt.trace.json", 0),
        ("worker1.1694128201545.pt.trace.json", 1),
    ]


def test_an_unknown_run(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"a_rank0.json": trace_of(0), "b_rank0.json": trace_of(0)})
    with pytest.raises(UserError, match=r"(?s)no run called 'c'.*a_rank\*, b_rank\*"):
        find_run(folder, "c")


def test_other_json_in_the_folder_is_passed_over(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        {
            "rank0.json": trace_of(),
            "capture.json": {"step_ms": [1, 2]},
            "profile.speedscope.json": {"$schema": "https://www.speedscope.app/file-format-schema.json"},
            "memory.json": [[1, 2], [3, 4]],
            "notes.txt": "rank0",
            "broken.json.gz": "\x1f\x8b broken",
        },
    )
    assert found(folder) == [("rank0.json", 0)]


@pytest.mark.parametrize("left", ["", '{"schemaVersion": 1, "deviceProp'], ids=["empty", "cut before the events"])
@pytest.mark.parametrize("name", ["rank{}.json", "{}/rank{}.json"], ids=["in one folder", "each in its own"])
def test_a_file_named_like_the_traces_in_which_there_is_none_is_told(left: str, name: str, tmp_path: Path) -> None:
    first, second, third = (name.format(rank, rank) for rank in range(3))
    folder = folder_of(tmp_path, {first: trace_of(), second: left, third: trace_of(), "notes.json": {}})
    run = find_run(folder)
    assert [file.rank for file in run.files] == [0, 2]
    assert run.unreadable == (folder / second,)


def test_another_document_of_a_rank_that_has_its_trace_is_passed_over(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"rank0.pt.json": trace_of(), "rank1.pt.json": trace_of()})
    (folder / "rank1.pt.json.zst").write_text('{"nodes": []}')
    assert find_run(folder).unreadable == ()


def test_traces_below_the_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"capture.json": {}, "traces/rank0.json": trace_of(), "traces/rank1.json": trace_of()})
    assert [rank for _, rank in found(folder)] == [0, 1]


@pytest.mark.parametrize("files", [{}, {"capture.json": {}}, {"trace.txt": trace_of()}], ids=["empty", "json", "txt"])
def test_no_traces(files: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no traces in the folder"):
        find_run(folder_of(tmp_path, files))


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder") as error:
        find_run(tmp_path / "missing.json")
    assert error.value.exit_code == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    folder_of(tmp_path, {"rank0.json": trace_of()})
    (tmp_path / "rank0.json").chmod(0)
    with pytest.raises(UserError, match="Permission denied"):
        read(tmp_path / "rank0.json")


def test_a_broken_link(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").symlink_to(tmp_path / "gone.json")
    with pytest.raises(UserError, match="no traces"):
        find_run(tmp_path)


def test_a_folder_read_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the trace"):
        read(tmp_path)


def test_control_characters_in_names_are_escaped(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"a\x1b[31m_rank0.json": trace_of(0), "b_rank0.json": trace_of(0)})
    with pytest.raises(UserError) as error:
        find_run(folder)
    assert "\x1b" not in error.value.message
    assert r"\x1b[31m" in error.value.message


def test_runs_in_folders_below_are_named_after_their_folders(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        for rank in (0, 1):
            Job(rank=rank, world=2).write(_made(tmp_path / folder) / f"rank{rank}.json")

    assert [run.name for run in runs_of(trace_files(tmp_path))] == ["first", "second"]
    assert [f.rank for f in find_run(tmp_path, "second").files] == [0, 1]


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def test_files_that_tell_no_rank_are_told_how_to_be_joined(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {f"trace_{number}.json": trace_of() for number in range(2)})
    with pytest.raises(UserError, match=r"(?s)2 runs in one folder.*no file tells its rank.*\.\.\._rank0\.json"):
        find_run(folder)


def of_world(rank: int, ns: int = 0) -> dict[str, Any]:
    """A trace of a rank of two, that began so many nanoseconds after a date."""
    dated = {"baseTimeNanoseconds": 1_700_000_000 * 10**9 + ns} if ns else {}
    return trace_of(rank) | dated


def test_ranks_in_a_folder_for_each_node_are_one_run(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {f"node{rank}/local/rank{rank}.json": of_world(rank) for rank in (0, 1)})
    assert found(folder) == [("rank0.json", 0), ("rank1.json", 1)]


def test_runs_in_folders_by_node_are_joined_by_the_names_of_the_folders_below(tmp_path: Path) -> None:
    files = {f"node{rank}/{run}/rank{rank}.json": of_world(rank) for run in ("first", "second") for rank in (0, 1)}
    folder = folder_of(tmp_path, files)
    assert [run.name for run in runs_of(trace_files(folder))] == ["first", "second"]
    assert [file.path.parent.name for file in find_run(folder, "second").files] == ["second", "second"]


def test_runs_in_folders_by_node_whose_names_differ_are_joined_by_their_times(tmp_path: Path) -> None:
    seconds = {"node0/x": 1, "node0/y": 100, "node1/q": 2, "node1/p": 101}
    files = {f"{place}/rank{place[4]}.json": of_world(int(place[4]), ns * 10**9) for place, ns in seconds.items()}
    runs = runs_of(trace_files(folder_of(tmp_path, files)))
    assert [[file.path.parent.name for file in run.files] for run in runs] == [["x", "q"], ["y", "p"]]


def test_two_jobs_of_one_rank_each_are_not_parts_of_one(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {f"{job}/{run}/rank0.json": of_world(0) for job in "ab" for run in "xy"})
    assert [run.name for run in runs_of(trace_files(folder))] == ["a/x", "a/y", "b/x", "b/y"]


def test_windows_in_folders_by_node_are_named_after_the_windows(tmp_path: Path) -> None:
    files = {}
    for rank in (0, 1):
        for window, step in (("step-10", 10), ("step-20", 20)):
            mark = EVENT | {
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "ts": next(TIMES),
                "pid": rank + 1,
            }
            info = {"distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2}}
            base = {"baseTimeNanoseconds": (1_700_000_000 + step) * 10**9}
            files[f"node{rank}/run/{window}/rank{rank}.json"] = {**info, **base, "traceEvents": [mark]}
    run = find_run(folder_of(tmp_path, files))
    assert [(window.name, [file.rank for file in window.files]) for window in run.windows] == [
        ("step-10", [0, 1]),
        ("step-20", [0, 1]),
    ]
