"""Ten times as much of anything costs about ten times as much work and memory, never a hundred times."""

import io
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import long_jobs
import numpy as np
import pytest
from kineto import Trace as Job
from long_jobs import Counted, calls_counted
from rich.console import Console

from diagnose.analysis import analyze
from diagnose.analysis import rank as rank_analysis
from diagnose.report.html import About, page
from diagnose.report.text import render
from diagnose.trace import Trace, read

pytestmark = pytest.mark.long

MOST = 12
WORK = {  # how much of each is compared with ten times as much
    long_jobs.steps: 200,
    long_jobs.streams: 400,
    long_jobs.threads: 200,
    long_jobs.names: 200,
    long_jobs.nests: 400,
    long_jobs.optimizers: 600,
    long_jobs.groups: 40,
    long_jobs.sizes: 40,
    long_jobs.ranks: 300,
}
MEMORY = {long_jobs.steps: 500, long_jobs.streams: 500, long_jobs.names: 300, long_jobs.groups: 30}

OFTEN = (long_jobs.steps, long_jobs.ranks, long_jobs.nests, long_jobs.names)  # the others run where there is time


def one(make: Callable[[int], list[Job]]) -> object:
    return pytest.param(make, id=make.__name__, marks=() if make in OFTEN else pytest.mark.slow)


def written(folder: Path, jobs: list[Job]) -> Path:
    for rank, job in enumerate(jobs):
        job.write(folder / f"rank{rank}.json")
    return folder


def reported(folder: Path) -> None:
    """The whole way from the files to the reports."""
    found = analyze(folder)
    assert found.ledger
    found.to_json()
    render(found, Console(file=io.StringIO(), width=100), details=True)
    page(found, About("", ""))


@pytest.fixture
def counted_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces are loaded with columns that count what is read of them."""
    load_all = rank_analysis.load_all

    def counting(*args: Any, **more: Any) -> Iterator[Trace]:
        for trace in load_all(*args, **more):
            columns = {f.name: getattr(trace, f.name) for f in fields(trace)}
            own = {name: column.view(Counted) for name, column in columns.items() if isinstance(column, np.ndarray)}
            yield replace(trace, **own)

    monkeypatch.setattr(rank_analysis, "load_all", counting)


@pytest.mark.usefixtures("counted_columns")
@pytest.mark.parametrize("make", [one(make) for make in WORK])
def test_work_grows_as_the_job_does(make: Callable[[int], list[Job]], tmp_path: Path) -> None:
    reported(written(tmp_path / "warm", make(WORK[make])))
    work = []
    for size in (WORK[make], 10 * WORK[make]):
        folder = written(tmp_path / str(size), make(size))
        Counted.elements = 0
        with calls_counted() as calls:
            reported(folder)
        work.append((calls[0], Counted.elements))
    (calls_before, elements_before), (calls_after, elements_after) = work
    assert elements_before > WORK[make]
    assert calls_after <= MOST * calls_before
    assert elements_after <= MOST * elements_before


@pytest.mark.parametrize("make", [one(make) for make in MEMORY])
def test_memory_grows_as_the_job_does(make: Callable[[int], list[Job]], tmp_path: Path) -> None:
    reported(written(tmp_path / "warm", make(MEMORY[make])))
    peaks = []
    for size in (MEMORY[make], 10 * MEMORY[make]):
        folder = written(tmp_path / str(size), make(size))
        tracemalloc.start()
        try:
            reported(folder)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] <= MOST * peaks[0]


BLANKS = 400_000 * b" "
EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
PLACES = {
    "before the list": BLANKS + b'{"traceEvents": [%b]}' % EVENT,
    "in the key": b'{"traceEvents"' + BLANKS + b": [%b]}" % EVENT,
    "before the events": b'{"traceEvents": [' + BLANKS + b"%b]}" % EVENT,
    "behind an event": b'{"traceEvents": [%b' % EVENT + BLANKS + b", %b]}" % EVENT,
    "behind a comma": b'{"traceEvents": [%b,' % EVENT + BLANKS + b"%b]}" % EVENT,
    "inside an event": b'{"traceEvents": [{' + BLANKS + EVENT[1:] + b"]}",
    "before the end of the list": b'{"traceEvents": [%b' % EVENT + BLANKS + b"]}",
    "behind the list": b'{"traceEvents": [%b]' % EVENT + BLANKS + b"}",
    "behind the list, with text": b'{"traceEvents": [%b]' % EVENT + BLANKS + b"x",
    "behind all": b'{"traceEvents": [%b]}' % EVENT + BLANKS + b"x",
    "behind damage": b'{"traceEvents": [{"ph": "X", "name": }' + BLANKS + b", %b]}" % EVENT,
    "behind damage, with text": b'{"traceEvents": [%b, {"ph": }' % EVENT + BLANKS + b"x" + BLANKS + b"]}",
    "in a plain list": b"[" + BLANKS + EVENT + BLANKS + b"]",
}


@pytest.mark.parametrize("place", PLACES)
def test_blanks_are_looked_at_once(place: str, tmp_path: Path) -> None:
    """Where every blank is looked at from every other, this many take a quarter of an hour."""
    (tmp_path / "t.json").write_bytes(PLACES[place])
    assert len(read(tmp_path / "t.json")) >= 1


@pytest.mark.parametrize("reader", ["reference", "compiled"])
def test_what_is_kept_of_a_collective_does_not_keep_the_text_around_it(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIAGNOSE_READER", reader)
    args = b'"Collective name": "allreduce", "In msg nelems": 8, "Input Dims": [[8]], "else": "%b"' % (1_000_000 * b"x")
    peaks = []
    for number in (6, 24):
        path = tmp_path / f"{number}.json"
        path.write_bytes(b'{"traceEvents": [%b]}' % b", ".join(number * [EVENT[:-1] + b', "args": {%b}}' % args]))
        tracemalloc.start()
        try:
            assert read(path).collectives.elements_in.tolist() == number * [8]
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 6_000_000
