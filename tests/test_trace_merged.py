"""Ranks merged into one file: told apart by how merging tools number processes, and only then."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from trace_files import KERNEL, rows, saved

from diagnose.analysis import analyze
from diagnose.trace import ReadingLoss, ranks_of, read

STRAGGLER = Path(__file__).parent.parent / "sample_traces" / "synthetic-straggler"


def merged(folder: Path) -> list[dict[str, Any]]:
    """The events of all ranks in `folder`, as merging tools write them."""
    events = []
    for path in sorted(folder.glob("*.json.gz")):
        document = json.loads(gzip.decompress(path.read_bytes()))
        rank = document["distributedInfo"]["rank"]
        for event in document["traceEvents"]:
            if isinstance(event.get("pid"), int):
                event["args"] = event.get("args", {}) | {"rank": rank, "pid_raw": event["pid"]}
                event["pid"] += rank * 100_000_000
            events.append(event)
    return events


@pytest.mark.long
def test_the_diagnosis_is_that_of_the_separate_files(tmp_path: Path) -> None:
    apart, together = analyze(STRAGGLER), analyze(saved(tmp_path / "merged.json", merged(STRAGGLER)))
    assert len(apart.ranks) > 1
    assert [rank.rank for rank in together.ranks] == [rank.rank for rank in apart.ranks]
    assert together.verdict.class_ == apart.verdict.class_
    assert [(e.cause, e.ns) for e in together.ledger] == [(e.cause, e.ns) for e in apart.ledger]
    assert len(together.trace.files) == 1
    assert abs(together.trace.bytes - (tmp_path / "merged.json").stat().st_size) < len(apart.ranks)


def test_the_processes_get_their_own_ids_back(tmp_path: Path) -> None:
    pids = (542, 300_000_542, 300_000_001, "Spans")
    found = ranks_of(read(saved(tmp_path / "t.json", [KERNEL | {"pid": pid} for pid in pids])))
    assert {rank: part.pid.tolist() for rank, part in found.items()} == {0: [542], 3: [542, 1]}


def test_a_loss_is_booked_once(tmp_path: Path) -> None:
    events = [KERNEL | {"pid": 1}, KERNEL | {"pid": 100_000_001, "dur": -1}, KERNEL | {"pid": 100_000_001}]
    first, second = ranks_of(read(saved(tmp_path / "t.json", events))).values()
    assert (first.loss.events, second.loss) == (1, ReadingLoss())


@pytest.mark.parametrize(
    "document",
    [
        [KERNEL | {"pid": 1}, KERNEL | {"pid": 4_000_000}],
        [KERNEL | {"pid": 300_000_001}, KERNEL | {"pid": 300_000_002}],
        [KERNEL | {"pid": 1}, KERNEL | {"pid": 150_000_000}],
        {"traceEvents": [KERNEL | {"pid": 1}, KERNEL | {"pid": 100_000_001}], "distributedInfo": {"rank": 0}},
        [KERNEL | {"pid": "Spans"}],
    ],
    ids=["two processes", "one rank", "a large pid", "a rank is stated", "no pid"],
)
def test_one_rank_stays_one(document: Any, tmp_path: Path) -> None:
    trace = read(saved(tmp_path / "t.json", document))
    assert ranks_of(trace) == {}
    assert len(rows(trace))
