"""Exports made up here, by the columns of several versions of Nsight Systems: what is read, and what a step is."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from nsys_exports import COPY, GPUS, GRAPH, KERNEL, RANGES, RUNTIME, Row, global_id, kernel, launch, named_range
from nsys_exports import training_export as training
from nsys_exports import write_export as write

from diagnose.analysis import Options, analyze
from diagnose.arrays import ABSENT
from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.trace import Trace, load, ranks_of
from diagnose.trace.nsight.database import MISSING
from diagnose.trace.nsight.processes import ExportedProcesses
from diagnose.trace.nsight.reports import exported_to
from diagnose.trace.packing import pack, unpack

TEXTS = ("sm90_gemm", "cudaLaunchKernel_ptsz_v7000", "cuLaunchKernel", "f<(int)4, (bool)1, -1>", "registered step 3")


def names(trace: Trace, *categories: str) -> list[str]:
    return [trace.names[name] for name in trace.name[trace.rows_of(*categories)].tolist()]


def test_names_are_those_of_torch(tmp_path: Path) -> None:
    ranges = [named_range("aten::mul, seq = 3, op_id = 9", 1, 1), named_range("FSDP::fwd (block), op_id = 2", 1, 1)]
    registered = {**named_range("", 3, 1), "text": None, "textId": 4}
    calls = [launch(1, 0, 2), launch(2, 1, 3)]
    path = write(
        tmp_path / "a.sqlite", TEXTS, {KERNEL: [kernel(3, 2, 1)], RUNTIME: calls, RANGES: [*ranges, registered]}
    )
    trace = load(path)

    assert names(trace, "kernel") == ["f<4, true, -1>"]
    assert names(trace, "cuda_runtime") == ["cudaLaunchKernel"]
    assert names(trace, "cuda_driver") == ["cuLaunchKernel"]
    assert names(trace, "cpu_op") == ["aten::mul"]
    assert names(trace, "user_annotation") == ["FSDP::fwd (block)", "registered step 3"]


@pytest.mark.parametrize("column", ["shortName", "name", "mangledName"])
def test_the_name_of_a_kernel_is_in_the_first_column_that_a_version_has(tmp_path: Path, column: str) -> None:
    row = dict(kernel(0, 2, 1))
    row[column] = row.pop("demangledName")

    assert names(load(write(tmp_path / "a.sqlite", TEXTS, {KERNEL: [row]})), "kernel") == ["sm90_gemm"]


def test_names_may_stand_in_the_rows_themselves(tmp_path: Path) -> None:
    """As other tools write them that make an export smaller, or join its tables."""
    kernels = [{**kernel(3, 2, 1), "demangledName": "f<(int)4>"}, kernel(0, 4, 1)]
    calls = [{**launch(1, 0, 2), "nameId": "cudaLaunchKernel_v7000"}, launch(2, 3, 4)]
    trace = load(write(tmp_path / "a.sqlite", TEXTS, {KERNEL: kernels, RUNTIME: calls}))

    assert names(trace, "kernel") == ["f<4>", "sm90_gemm"]
    assert names(trace, "cuda_runtime", "cuda_driver") == ["cudaLaunchKernel", "cuLaunchKernel"]


def test_a_copy_says_from_where_to_where(tmp_path: Path) -> None:
    copy = {**kernel(0, 2, 1), "bytes": 4096, "copyKind": 2, "srcKind": 2, "dstKind": 1}
    trace = load(write(tmp_path / "a.sqlite", TEXTS, {COPY: [copy]}))

    assert (names(trace, "gpu_memcpy"), trace.bytes.tolist()) == (["Memcpy DtoH (Device -> Pinned)"], [4096])


def test_graphs_count_as_time_of_the_device(tmp_path: Path) -> None:
    """Which is all that is known of them: what bounds their kernels is not."""
    graph = {name: value for name, value in kernel(0, 0, 8).items() if name != "demangledName"}
    found = analyze(write(tmp_path / "a.sqlite", TEXTS, {KERNEL: [kernel(0, 8, 2)], GRAPH: [graph]}))
    (note,) = (finding for finding in found.findings if finding.rule == "unclassified-kernels")

    assert {entry.cause: round(entry.share, 3) for entry in found.ledger} == {"gemm": 0.2, "unclassified-kernel": 0.8}
    assert found.verdict.class_ == "undecided"
    assert found.verdict.because.startswith("kernels of unknown kind take 80 % of the device step")
    assert "--cuda-graph-trace=node" in note.do


def test_old_exports_name_no_process_and_no_kind_of_range(tmp_path: Path) -> None:
    bare = [{name: value for name, value in kernel(0, at, 1).items() if name != "globalPid"} for at in (1, 3)]
    mark = {name: value for name, value in named_range("forward", 0, 5).items() if name != "eventType"}
    trace = load(write(tmp_path / "a.sqlite", TEXTS, {KERNEL: bare, RUNTIME: [launch(1, 0, 1)], RANGES: [mark]}))

    assert (len(trace), ranks_of(trace), names(trace, "user_annotation")) == (4, {}, ["forward"])


def test_the_device_is_the_one_that_the_export_or_the_user_names(tmp_path: Path) -> None:
    gpu = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalMemory": 85029158912, "smCount": 132}
    shape = {"blockX": 256, "blockY": 1, "blockZ": 1, "gridX": 264, "gridY": 1, "gridZ": 1}
    path = write(tmp_path / "a.sqlite", TEXTS, {KERNEL: [kernel(0, 1, 1, **shape)], GPUS: [gpu]})
    trace = load(path)

    assert (trace.block_threads.tolist(), trace.blocks_per_sm.tolist()) == ([256], [2.0])
    assert "NVIDIA H100 80GB HBM3" in [fact.value for fact in analyze(path).facts if fact.name == "gpu_name"]
    other = CliRunner().invoke(main, ["analyze", str(path), "--gpu", "A100-SXM4-80GB", "--json"])
    assert '"device": "NVIDIA A100-SXM4-80GB"' in other.output


@pytest.mark.parametrize("mark", ["iteration {}", "step_{}", "Step {}", "train_step", "iteration[{},9)"])
def test_ranges_called_steps_are_steps(tmp_path: Path, mark: str) -> None:
    found = analyze(training(tmp_path / "a.sqlite", mark=mark))

    assert (found.steps.source, found.steps.count) == ("named ranges", 4)
    shares = {entry.cause: round(entry.share, 3) for entry in found.ledger}
    assert (shares["gemm"], shares["copy-HtoD"]) == (0.6, 0.2)


def test_the_user_names_the_ranges_that_are_steps(tmp_path: Path) -> None:
    path = training(tmp_path / "a.sqlite", mark="turn {}")
    commands = (["analyze", str(path), "--json", *more] for more in ([], ["--step-range", "turn"]))
    plain, stated = (json.loads(CliRunner().invoke(main, command).output)["steps"] for command in commands)

    assert (plain["source"], plain["count"]) == ("window", 1)
    assert (stated["source"], stated["count"]) == ("named ranges", 4)
    wrong = CliRunner().invoke(main, ["analyze", str(path), "--step-range", "epoch"])
    assert wrong.exit_code == 2
    assert "no range is named like epoch" in wrong.output
    assert "turn 7" in wrong.output


def test_an_update_called_step_is_no_step(tmp_path: Path) -> None:
    updates = [named_range("step", 109 + 10 * at, 0.5) for at in range(5)]
    kernels = [kernel(0, 101 + 10 * at, 5) for at in range(5)]
    found = analyze(write(tmp_path / "a.sqlite", TEXTS, {KERNEL: kernels, RANGES: updates}))

    assert found.steps.source == "window"


def rounds(copied: bool) -> dict[str, list[Row]]:
    """Six rounds of four kernels; in each a token may be read at its end."""
    kernels = [kernel(at % 4, 10 * (at // 4) + 2 * (at % 4), 1) for at in range(24)]
    copy = {"bytes": 4, "copyKind": 2, "srcKind": 2, "dstKind": 0}
    copies = [{**kernel(0, 10 * at + 8, 1), **copy} for at in range(6)]
    return {KERNEL: kernels, **({COPY: copies} if copied else {})}


def test_kernels_that_repeat_are_steps_where_a_result_is_read_in_each_round(tmp_path: Path) -> None:
    texts = ("a", "b", "c", "argmax")
    read, layers = (analyze(write(tmp_path / f"{c}.sqlite", texts, rounds(copied=c))) for c in (True, False))

    assert (read.steps.source, read.steps.count) == ("pattern", 4)
    assert read.steps.device_time_ns == 4 * 10_000_000
    assert (layers.steps.source, layers.steps.count) == ("window", 1)


def test_without_ranges_of_operators_the_time_of_the_host_is_not_called_python(tmp_path: Path) -> None:
    causes = {entry.cause for entry in analyze(training(tmp_path / "a.sqlite")).ledger if entry.ns}

    assert "untraced" in causes
    assert "python" not in causes


def test_processes_are_ranks_by_device(tmp_path: Path) -> None:
    found = analyze(training(tmp_path / "a.sqlite", processes=(31, 20, 25)))

    assert [(rank.rank, rank.steps) for rank in found.ranks] == [(0, 4), (1, 4), (2, 4)]


def test_a_process_that_only_looks_at_the_gpu_is_no_rank_and_is_told(tmp_path: Path) -> None:
    rows = [*(kernel(0, 10 * at, 9, pid=10) for at in range(5)), kernel(0, 3, 0.01, pid=99)]
    trace = load(write(tmp_path / "a.sqlite", TEXTS, {KERNEL: rows}))

    assert (len(trace), trace.loss.kinds) == (5, {"gpu-activity-of-other-processes": 1})


def test_files_of_a_folder_are_further_ranks(tmp_path: Path) -> None:
    training(tmp_path / "node0.sqlite", processes=(10, 11))
    training(tmp_path / "node1.sqlite", processes=(10, 12))
    write(tmp_path / "experiments.sqlite", TEXTS, {"runs": [{"id": 1}]})

    assert [rank.rank for rank in analyze(tmp_path).ranks] == [0, 1, 2, 3]


def test_a_damaged_file_of_a_folder_is_no_silent_loss(tmp_path: Path) -> None:
    training(tmp_path / "node0.sqlite")
    training(tmp_path / "node1.sqlite", processes=(10, 12))
    os.truncate(tmp_path / "node0.sqlite", 12_000)

    with pytest.raises(UserError, match=r"node0\.sqlite"):
        analyze(tmp_path)


def test_as_many_processes_as_rows_take_no_longer() -> None:
    keys = tuple(range(900_000, 0, -1))
    owners = np.array([900_000, 7, 5, 900_001, MISSING], np.int64)

    assert ExportedProcesses(keys, {}).ranks(owners).tolist() == [0, 899_993, 899_995, ABSENT, ABSENT]
    assert ExportedProcesses((), {}).ranks(owners).tolist() == [ABSENT] * 5


def test_a_range_begun_and_never_ended_is_left_out(tmp_path: Path) -> None:
    open_ = {**named_range("iteration 9", 0, 1), "end": None}
    other = {**named_range("domain", 0, 1), "eventType": 75}
    trace = load(write(tmp_path / "a.sqlite", TEXTS, {KERNEL: [kernel(0, 1, 1)], RANGES: [open_, other]}))

    assert names(trace, "user_annotation") == []


def test_threads_are_told_apart(tmp_path: Path) -> None:
    calls = [launch(1, 0, 1), {**launch(1, 0.5, 2), "globalTid": global_id(10, 77)}]
    trace = load(write(tmp_path / "a.sqlite", TEXTS, {KERNEL: [kernel(0, 1, 1), kernel(0, 2, 1)], RUNTIME: calls}))

    at = trace.rows_of("cuda_runtime")
    assert list(zip(trace.pid[at].tolist(), trace.tid[at].tolist(), strict=True)) == [(10, 10), (10, 77)]


def test_steps_can_be_chosen_and_the_export_annotated(tmp_path: Path) -> None:
    path, to = training(tmp_path / "a.sqlite"), tmp_path / "annotated.json"
    done = CliRunner().invoke(main, ["analyze", str(path), "--annotate", str(to), "--step", "9"])

    assert done.exit_code == 0, done.output
    again = analyze(to, options=Options(rank=0))
    assert round(again.ledger[0].share, 1) == 0.6


def test_what_the_cache_keeps_of_an_export_is_the_export(tmp_path: Path) -> None:
    trace = load(training(tmp_path / "a.sqlite", processes=(10, 11)))
    with (tmp_path / "packed").open("w+b") as file:
        pack(trace, file)
        again = unpack(file, trace.path)

    assert again.of_nsight
    assert (again.ts.tolist(), again.names, again.metadata) == (trace.ts.tolist(), trace.names, trace.metadata)


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_report_is_exported_by_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_folder: bool) -> None:
    (tmp_path / "reports").mkdir()
    report = training(tmp_path / "reports" / "rank0.nsys-rep")  # what the nsys that stands in here copies
    nsys_that_copies(tmp_path / "nsys")
    path = report.parent if as_folder else report

    monkeypatch.setenv("PATH", "/nowhere")
    missing = CliRunner().invoke(main, ["analyze", str(path)])
    assert missing.exit_code == 3
    assert "nsys is not on the PATH here" in missing.output
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = analyze(path)
    assert (found.steps.count, found.trace.files) == (4, (str(report),))


def nsys_that_copies(nsys: Path) -> None:
    nsys.write_text(
        '#!/bin/sh\nfor word; do case $word in --output=*) to=${word#--output=};; esac; done\ncp "$word" "$to"\n'
    )
    nsys.chmod(0o755)


def test_reports_that_differ_in_their_suffix_are_both_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [tmp_path / name for name in ("a.nsys-rep", "a.qdrep")]
    for report in reports:
        report.write_text(report.name)
    nsys_that_copies(tmp_path / "nsys")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    (tmp_path / "exported").mkdir()

    names = exported_to(tmp_path / "exported", reports)

    assert {Path(file).read_text(): told for file, told in names.items()} == {r.name: str(r) for r in reports}
