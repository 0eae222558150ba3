"""Columns as narrow as what they hold: the same values and the same answers as in 64 bits, at a type's limits too."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty_traces import CASES
from kineto import Trace as Job
from trace_files import KERNEL, assert_same, saved

from diagnose.analysis import analyze, rank
from diagnose.trace import Loading, Trace, load, load_all, read
from diagnose.trace.builder import DTYPES, NARROWED
from diagnose.trace.reader import read_part, trace_of
from diagnose.trace.shares import shares_of
from diagnose.trace.spill import Growing, is_on_disk, narrowest

LARGEST = {"tid": 2**31 - 1, "correlation": 2**31 - 1, "external_id": 2**31 - 1, "bytes": 2**31 - 1, "stream": 127}
CALL = "train.py(7): batches"
limits = pytest.mark.parametrize("width", [np.int8, np.int16, np.int32, np.int64])


@limits
def test_the_narrowest_type_holds_its_own_limits_and_no_more(width: type) -> None:
    least, most = np.iinfo(width).min, np.iinfo(width).max
    assert narrowest(np.array([least, most])) == width
    if width != np.int64:
        wider = 2 * np.dtype(width).itemsize
        assert narrowest(np.array([least - 1])).itemsize == narrowest(np.array([most + 1])).itemsize == wider


@pytest.mark.parametrize("on_disk", [False, True])
@limits
def test_a_wide_value_widens_what_is_there(width: type, on_disk: bool) -> None:
    values = [3, -1, int(np.iinfo(width).max), -1, 7]
    growing = Growing(None)
    for value in values:
        growing.append(np.array([value]))
        if on_disk:
            growing.spill()
    found = growing.finished()
    assert (found.tolist(), found.dtype) == (values, width)
    assert is_on_disk(found) == on_disk


def job_with(thread: int, stream: int) -> list[dict[str, object]]:
    """Kernels, the last of which has a thread and a stream that need more bits than the others'."""
    kernels = [KERNEL | {"ts": 10.0 * at, "args": {"stream": 7}} for at in range(300)]
    return [*kernels, KERNEL | {"ts": 3000.0, "name": "last", "tid": thread, "args": {"stream": stream}}]


@pytest.mark.usefixtures("either_reader")
@pytest.mark.parametrize("thread", [127, 128, 2**31 - 1, 2**31, -(2**31)])
def test_a_trace_is_as_narrow_however_it_is_read(thread: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "t.json", job_with(thread, stream=200))
    found = read(path)
    assert {name for name in DTYPES if getattr(found, name).dtype == np.int64} - {"tid"} == {"ts", "dur"}
    assert all(getattr(found, name).dtype == narrowest(getattr(found, name)) for name in NARROWED)
    assert (found.tid.dtype, found.stream.dtype) == (narrowest(np.array([thread])), np.int16)
    assert_same(trace_of([read_part(path, share) for share in shares_of(path, 3)]), found)
    assert_same(load(path, Loading(memory_bytes=1 << 12)), found)
    monkeypatch.setenv("DIAGNOSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("diagnose.trace.cache.SMALLEST_FILE_BYTES", 0)
    monkeypatch.setattr("diagnose.trace.cache.SMALLEST_TEXT_BYTES", 0)
    for _ in range(2):
        assert_same(load(path, Loading(cache=True)), found)


def at_the_limits(trace: Trace) -> Trace:
    """The trace with its largest thread, stream, size and ids just below what their type holds.

    Names, categories and shapes get there behind as many that no event has.
    """
    moved: dict[str, Any] = {}
    for name, largest in LARGEST.items():
        column = getattr(trace, name).astype(np.int64)
        moved[name] = np.where(column > 0, column + largest - column.max(initial=0), column)
    for name, unused in {"name": "unused", "cat": "unused", "shape": (b"[]", b"[]", b"[]")}.items():
        column, table = getattr(trace, name).astype(np.int64), getattr(trace, f"{name}s")
        more = max(128 - len(table), 0)
        moved |= {name: np.where(column >= 0, column + more, column), f"{name}s": (*(more * [unused]), *table)}
    return replace(trace, **moved)


def wide(trace: Trace) -> Trace:
    return replace(trace, **{name: getattr(trace, name).astype(np.int64) for name in NARROWED})


def narrow(trace: Trace) -> Trace:
    return replace(trace, **{name: getattr(trace, name).astype(narrowest(getattr(trace, name))) for name in NARROWED})


def answer(path: Path, width: Callable[[Trace], Trace], monkeypatch: pytest.MonkeyPatch) -> str:
    """The whole diagnosis of traces whose columns have this width."""

    def loaded(files: Sequence[Path], how: Loading) -> object:
        return (width(at_the_limits(trace)) for trace in load_all(files, how))

    monkeypatch.setattr(rank, "load_all", loaded)
    return repr(analyze(path))


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_that_of_64_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = CASES[name].files(True)
        if isinstance(files, str):
            saved(Path(folder) / "trace.json", files)
        else:
            for job in files:
                job.write(Path(folder) / f"rank{job.rank}.json")
        assert answer(Path(folder), narrow, monkeypatch) == answer(Path(folder), wide, monkeypatch)


def test_so_are_the_lines_of_recorded_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()
    for _ in range(3):
        with job.step():
            job.event("python_function", CALL, 300)
            job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=40)
    path = tmp_path / "rank0.json"
    job.write(path)
    found = answer(path, narrow, monkeypatch)
    assert "batches" in found
    assert found == answer(path, wide, monkeypatch)
