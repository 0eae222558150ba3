"""The trace written back with what was found: still the same trace, with a track that says where the time goes."""

import gzip
import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM, MS
from click.testing import CliRunner
from kineto import Trace, collective

from diagnose.analysis import analyze
from diagnose.cli import main
from diagnose.commands.annotate import writing
from diagnose.trace import read


def slow_loader(rank: int = 0, world: int = 1) -> Trace:
    trace = Trace(rank=rank, world=world)
    for _ in range(4):
        with trace.step():
            trace.loader(us=5000)
            trace.launch(GEMM, 3000)
            trace.sync(stream=None)
    return trace


def annotated(path: Path, to: Path) -> list[dict[str, Any]]:
    """The events of the annotated trace."""
    done = CliRunner().invoke(main, ["analyze", str(path), "-q", "--annotate", str(to)])
    assert done.exit_code == 0, done.output
    text = gzip.decompress(to.read_bytes()) if to.suffix == ".gz" else to.read_bytes()
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return events


def of(events: list[dict[str, Any]], thread: str) -> list[dict[str, Any]]:
    """The slices of the diagnose track on the threads whose name begins so."""
    named = [e for e in events if e["name"] == "thread_name" and e["args"]["name"].startswith(thread)]
    tids = {e["tid"] for e in named}
    return [e for e in events if e.get("cat") == "diagnose" and e["tid"] in tids]


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_the_track_shows_the_steps_the_waiting_and_the_advice(tmp_path: Path, name: str) -> None:
    path = slow_loader().write(tmp_path / "trace.json")
    found = analyze(path)
    events = annotated(path, tmp_path / name)

    assert [e["name"] for e in of(events, "steps")] == ["step 11", "step 12", "step 13"]
    waits = [e for e in of(events, "idle and waiting") if e["args"]["cause"] == "data-wait"]
    told = next(entry.ns for entry in found.ledger if entry.cause == "data-wait")
    assert round(sum(e["dur"] for e in waits) * 1000) == told > 14 * MS
    advice = next(e for e in of(events, "finding: data-wait"))
    assert "num_workers=" in advice["args"]["type"]
    assert {e["name"].split(":")[0] for e in of(events, "finding")} == {own.rule for own in found.findings}


def test_what_was_there_stays_to_the_letter(tmp_path: Path) -> None:
    path = slow_loader().write(tmp_path / "trace.json")
    annotated(path, tmp_path / "out.json")

    before, after = path.read_text(), (tmp_path / "out.json").read_text()
    at = before.index("[", before.index('"traceEvents"')) + 1
    assert after.startswith(before[:at])
    assert after.endswith(before[at:].lstrip())


@pytest.mark.long
def test_a_trace_whose_events_begin_too_far_behind_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_SEARCHED", -1)
    trace = {"note": "x" * (5 << 20), **slow_loader().json()}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))

    assert of(annotated(path, tmp_path / "out.json"), "steps")
    assert analyze(tmp_path / "out.json").verdict == analyze(path).verdict


def test_the_annotated_trace_is_diagnosed_like_the_trace(tmp_path: Path) -> None:
    path = slow_loader().write(tmp_path / "trace.json")
    annotated(path, tmp_path / "out.json")

    before, after = analyze(path), analyze(tmp_path / "out.json")
    assert (after.verdict, after.ledger, after.plan) == (before.verdict, before.ledger, before.plan)


def test_several_ranks_become_one_trace_on_one_clock(tmp_path: Path) -> None:
    ranks = [Trace(rank=r, world=2, start_us=7_000_000 * r) for r in range(2)]
    for _ in range(4):
        with ExitStack() as steps:
            for trace in ranks:
                steps.enter_context(trace.step())
                trace.loader(us=5000 if trace.rank else 100)
                trace.launch(GEMM, 1000)
            collective(ranks, "allreduce", 1 << 22, 200, wait=True)
            for trace in ranks:
                trace.sync(stream=None)
    folder = tmp_path / "job"
    folder.mkdir()
    for trace in ranks:
        trace.write(folder / f"rank{trace.rank}.json")
    events = annotated(folder, tmp_path / "out.json")

    ends = [e["ts"] + e["dur"] for e in events if "AllReduce" in e["name"] and e["cat"] == "kernel"]
    half = len(ends) // 2
    assert half == 4
    assert max(abs(a - b) for a, b in zip(sorted(ends)[::2], sorted(ends)[1::2], strict=True)) < 50
    again = analyze(tmp_path / "out.json")
    assert [own.rank for own in again.ranks] == [0, 1]
    assert [(own.rank, own.cause) for own in again.stragglers] == [(1, "data")]


def test_a_damaged_trace_is_written_anew_without_what_was_lost(tmp_path: Path) -> None:
    path = slow_loader().write(tmp_path / "trace.json")
    text = path.read_text()
    path.write_text(text[: len(text) * 3 // 4])
    annotated(path, tmp_path / "out.json")

    assert len(read(path)) <= len(read(tmp_path / "out.json"))
    assert not read(tmp_path / "out.json").loss


def test_the_trace_itself_is_never_overwritten(tmp_path: Path) -> None:
    path = slow_loader().write(tmp_path / "trace.json")
    before = path.read_bytes()
    done = CliRunner().invoke(main, ["analyze", str(path), "--annotate", str(path)])

    assert done.exit_code == 2
    assert "--annotate would overwrite what is read" in done.output
    assert path.read_bytes() == before


def test_a_device_is_written_to_and_stays_one(tmp_path: Path) -> None:
    path = slow_loader().write(tmp_path / "trace.json")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    done = CliRunner().invoke(main, ["analyze", str(path), "-q", "--annotate", str(pipe)])
    out, _ = reader.communicate(timeout=300)

    assert done.exit_code == 0
    assert pipe.is_fifo()
    assert any(event.get("cat") == "diagnose" for event in json.loads(out)["traceEvents"])
