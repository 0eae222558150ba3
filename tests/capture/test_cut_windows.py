"""Windows that are cut, from the command to the report; each job runs for real."""

from __future__ import annotations

import gzip
import signal
from pathlib import Path

import pytest
from capture.bundles import events, facts, marker
from capture.command_runs import Start, ended, script
from capture.scripts import BARE, run, said

pytest.importorskip("torch")

ACCUMULATES = """
import sys, torch
import diagnose.probes.session
from torch import nn
diagnose.probes.session.PATIENCE_S = 300  # no phase is longer where a busy machine writes a trace slowly
torch.set_num_threads(1)
layers, accumulate = int(sys.argv[1]), int(sys.argv[2])
model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(layers)))
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
for _ in range(24):
    for _ in range(accumulate):
        model(torch.ones(2, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained")
"""


def text_bytes(folder: Path) -> int:
    return len(gzip.decompress((folder / "rank0.json.gz").read_bytes()))


@pytest.mark.long
def test_a_job_that_accumulates_64_stays_inside_its_budget(start: Start, tmp_path: Path) -> None:
    """Unasked, four steps of its 30 layers take several times the budget."""
    options = ("--out", "b", "--budget", "50M", "--skip", "1", "--no-sampling", "--no-report")
    code, out, err = ended(start(*options, "--", script(tmp_path, ACCUMULATES), 30, 64))

    record = facts(tmp_path / "b")
    recording, steps = record["recording"], record["recording"]["steps"]
    assert (code, out) == (0, "trained\n"), err
    assert recording["shapes"] is record["profiler"]["record_shapes"] is False
    assert 1 <= steps < recording["asked_steps"] == 4
    assert text_bytes(tmp_path / "b") <= 50_000_000
    assert text_bytes(tmp_path / "b") == pytest.approx(recording["text_bytes"], rel=0.1)
    assert len(record["steps"]["active_ns"]) == steps
    assert len(record["steps"]["control_after_ns"]) == 3
    assert "4 steps with shapes take" in recording["cut_because"]
    assert "the budget is 50 MB" in recording["cut_because"]
    marks = [event for event in events(tmp_path / "b") if event["name"].startswith("ProfilerStep#")]
    assert len(marks) == steps


def test_where_no_step_fits_step_times_are_kept_and_the_report_says_so(start: Start, tmp_path: Path) -> None:
    options = ("--out", "b", "--budget", "20K", "--skip", "1", "--no-sampling")
    code, out, err = ended(start(*options, "--", script(tmp_path, ACCUMULATES), 3, 2))

    record = facts(tmp_path / "b")
    assert (code, out) == (0, "trained\n"), err
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [
        "capture-rank0.json",
        "rank0.done",
        "run-rank0.json",
    ]
    [line] = [each for each in err.splitlines() if each.startswith("diagnose: step times only")]
    assert "the budget is 20 kB" in line
    assert line.endswith("see them: diagnose series b")
    assert record["recording"]["steps"] == 0
    assert record["error"] is None
    assert marker(tmp_path / "b")["left_out"] == record["recording"]["cut_because"]
    assert len(record["steps"]["control_before_ns"]) == len(record["steps"]["control_after_ns"]) == 3


def test_ranks_that_are_not_chosen_keep_their_step_times(tmp_path: Path) -> None:
    """Two ranks of one job, one after the other: the window needs no word between them."""
    for rank in (0, 1):
        variables = {"RANK": str(rank), "WORLD_SIZE": "2"}
        done = run(BARE + "loop()", tmp_path, {"ranks": "1", "skip": 2, "sample_steps": 0}, fresh=False, **variables)
        assert (done.returncode, said(done)) == (0, []), done.stderr

    out = tmp_path / "out"
    assert [path.name for path in sorted(out.glob("*.json.gz"))] == ["rank1.json.gz"]
    assert marker(out, 0)["left_out"] == "--ranks 1"
    assert "left_out" not in marker(out, 1)
    for rank, recorded in ((0, 0), (1, 3)):
        assert facts(out, rank)["recording"]["steps"] == recorded
        assert facts(out, rank)["recording"]["recorded_ranks"] == 1
        assert len(facts(out, rank)["steps"]["control_after_ns"]) == 3


def test_a_rank_that_records_nothing_still_ends_its_job_when_asked(tmp_path: Path) -> None:
    window = {"ranks": "7", "stop": True, "skip": 2, "sample_steps": 0}
    done = run(BARE + "loop(400)\nprint('all')", tmp_path, window, fresh=False, RANK="0", WORLD_SIZE="2")

    assert (done.returncode, done.stdout) == (0, "")
    assert marker(tmp_path / "out")["left_out"] == "--ranks 7"


@pytest.mark.parametrize(
    ("what", "at"), [("optimizer.step()", (5, 8)), ("current_session.session().loop_ended()", (8,))]
)
def test_nothing_is_exported_inside_a_signal_handler(what: str, at: tuple[int, ...], tmp_path: Path) -> None:
    """A handler that trains, or ends the loop, in the midst of the recording; the trace follows outside of it."""
    script = (
        "import os, signal, torch.profiler\n"
        "from diagnose.probes import current_session\n"
        "inside, exported = [], []\n"
        "export = torch.profiler.profile.export_chrome_trace\n"
        "def noting(self, path):\n    exported.append(bool(inside))\n    export(self, path)\n"
        "torch.profiler.profile.export_chrome_trace = noting\n"
        "def handler(number, frame):\n"
        f"    inside.append(1)\n    for _ in range(9):\n        {what}\n    inside.clear()\n"
        f"signal.signal({int(signal.SIGUSR1)}, handler)\n"
        "def during(number):\n"
        f"    if number in {at}:\n        os.kill(os.getpid(), {int(signal.SIGUSR1)})\n"
        "loop()\nprint(any(exported), len(exported) > 1)\n"
    )
    done = run(BARE + script, tmp_path, {"at_step": 7, "sample_steps": 0})

    assert (done.returncode, done.stdout) == (0, "False True\n"), done.stderr
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"
