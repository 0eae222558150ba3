"""The compiled reader: it reads as the reference reader does, bit for bit, and it never has to be there."""

import json
import os
import random
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scanned_texts import VARIABLE, differences, odd_trace, outcome
from trace_files import KERNEL, saved, small_job

from diagnose.trace import Trace, scanning, source
from diagnose.trace.builder import ColumnBuilder, Interner

TESTS = Path(__file__).parent
ROOT = TESTS.parent
GIVEN = ("DIAGNOSE_REAL_TRACES", "DIAGNOSE_MORE_TRACES", "DIAGNOSE_HOSTILE_INPUTS")
compiled = pytest.mark.skipif(scanning._scanner is None, reason="the compiled reader is not installed")
ONE = '{"ph":"X","cat":"cpu_op","name":"mm","pid":1,"tid":2,"ts":5.5,"dur":1,"args":{%s}}'


@pytest.fixture(autouse=True)
def reader_of_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test says which reader it asks for, whatever all the others are run with."""
    monkeypatch.delenv(VARIABLE, raising=False)


def traces() -> list[Path]:
    folders = [ROOT / "sample_traces", TESTS / "hostile", TESTS / "fuzzed"]
    folders += [Path(os.environ[name]) for name in GIVEN if name in os.environ]
    endings = (".json", ".json.gz", ".json.zst")
    return [path for each in folders for path in sorted(each.rglob("*")) if path.name.endswith(endings)]


def scanned(text: str | bytes) -> scanning.Scanned | None:
    """What the compiled reader alone makes of events; None where it leaves them to the reference reader."""
    reader = ColumnBuilder().scanning()
    assert reader is not None
    return reader.scanned(b"", memoryview(text.encode() if isinstance(text, str) else text))


def read_twice(path: Path) -> Trace | str:
    """What both readers make of the file, once it is known to be the same."""
    reference = outcome(path, "reference")
    assert differences(outcome(path, "compiled"), reference) == []
    assert differences(outcome(path, "compiled", ahead=True), reference) == []
    return reference


# -- the same columns -------------------------------------------------------------------------------------------------


@compiled
@pytest.mark.long
@pytest.mark.parametrize("path", traces(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_is_read_alike(path: Path) -> None:
    read_twice(path)


@compiled
@pytest.mark.long
@pytest.mark.parametrize("block_bytes", [300, 1 << 20])
@given(draw=st.randoms(use_true_random=False))
def test_odd_fields_are_read_alike(block_bytes: int, draw: random.Random, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "odd.json"
    path.write_bytes(odd_trace(draw))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK_BYTES", block_bytes)
        read_twice(path)


@compiled
@pytest.mark.parametrize(
    "digits", ["12.345", "1712195495519689.047", "1623142623606115", "3e2", "0.00049", "-7.5", "12.34567"]
)
def test_times_are_read_alike(digits: str, tmp_path: Path) -> None:
    event = json.dumps(KERNEL | {"ts": 0}).replace('"ts": 0', f'"ts": {digits}')
    assert scanned(event) is not None
    assert isinstance(read_twice(saved(tmp_path / "t.json", f"[{event}]")), Trace)


@compiled
@pytest.mark.parametrize("blocks", ["5e-324", "-1", "0", "1e308", "null"])
def test_blocks_that_no_kernel_has_are_read_alike(blocks: str, tmp_path: Path) -> None:
    event = ONE % f'"blocks per SM": {blocks}, "warps per SM": 1e308'
    trace = read_twice(saved(tmp_path / "t.json", f"[{event}]"))
    assert isinstance(trace, Trace)
    assert trace.block_threads.tolist() == [-1]


@compiled
@pytest.mark.parametrize("special", ['\\"', "\\n", "\u00e9", "\x7f", "\t", "\x1f", "\\u12"])
def test_names_of_any_length_are_read_alike(special: str, tmp_path: Path) -> None:
    """Several bytes are looked at at once, and what is special among them may stand anywhere."""
    kernel = '{"ph":"X","cat":"kernel","name":"%s","ts":1,"dur":1}'
    names = [length * "k" + end + after for length in range(35) for end in ("", special) for after in ("", "z")]
    trace = read_twice(saved(tmp_path / "t.json", "[" + ",\n".join(kernel % name for name in names) + "]"))
    assert isinstance(trace, Trace)
    assert {length * "k" for length in range(35)} <= {*trace.names}


@compiled
def test_names_are_numbered_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Also behind a chunk that gave numbers before it turned out to be odd."""
    odd = KERNEL | {"name": "odd", "ts": "12"}
    names = [KERNEL | {"name": f"kernel {number % 700}", "cat": f"kernel{number % 7}"} for number in range(2000)]
    trace = read_twice(saved(tmp_path / "t.json", [*names[:900], odd, *reversed(names)]))
    assert isinstance(trace, Trace)
    assert trace.names[:2] == ("kernel 0", "kernel 1")


@compiled
@pytest.mark.long
def test_more_texts_than_are_kept_are_read_alike(tmp_path: Path) -> None:
    long, many = 9 * "long ", 40_000
    events = [KERNEL | {"name": f"{long}{each % many}", "args": {"Input Dims": [[each]]}} for each in range(2 * many)]
    trace = read_twice(saved(tmp_path / "t.json", [*events, KERNEL | {"name": 1000 * long}]))
    assert isinstance(trace, Trace)
    assert len(trace.names) == many + 1
    assert len(trace.shapes) == 2 * many


@compiled
def test_categories_are_left_out_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = KERNEL | {"cat": "python_function", "name": "train.py(3): \\d\u00e9", "args": {"Input Dims": [[9]]}}
    other, lasting_none = KERNEL | {"cat": "other"}, KERNEL | {"cat": "cpu_op", "dur": None}
    events = [KERNEL, call, call | {"cat": "Python_Function", "name": "f"}, other, lasting_none]
    path = saved(tmp_path / "t.json", json.dumps(20 * events))
    monkeypatch.setattr(source, "BLOCK_BYTES", 1000)
    left_out = frozenset({"python_function", "other"})
    found = outcome(path, "compiled", left_out)
    assert isinstance(found, Trace)
    assert differences(found, outcome(path, "reference", left_out)) == []
    assert [*found.left_out.items()] == [("other", 20), ("python_function", 40)]
    assert len(found) == 20


@compiled
def test_a_chunk_with_left_out_events_is_understood() -> None:
    reader = ColumnBuilder(None, frozenset({"python_function"})).scanning()
    assert reader is not None
    found = reader.scanned(b"", memoryview(f"{ONE % ''},{(ONE % '').replace('cpu_op', 'Python_function')}".encode()))
    assert found is not None
    assert found.left_out == {"python_function": 1}
    assert len(found.columns["ts"]) == 1


# -- what is left to the reference reader ------------------------------------------------------------------------------


@compiled
@pytest.mark.parametrize(
    "args",
    ['"stream": 7', '"stream": null', '"stream": "stream 7"', '"bytes": 1.5', '"Input Dims": [[2, 3], "\\n"]',
     '"x": {"y": [true, false, null, -1.5e-3]}', '"Collective name": "allreduce"', '"Seq": 3', '"": ""'],
)  # fmt: skip
def test_usual_events_are_understood(args: str) -> None:
    assert scanned(ONE % args) is not None


@compiled
@pytest.mark.parametrize(
    "args",
    ['"stream": true', '"stream": [7]', '"stream": 07', '"stream": 9223372036854775808', '"stream": 7, "stream": 8',
     '"x": NaN', '"x": 1.', '"x": "\\q"', '"x": "\\ud800"', '"x": "\t"', '"x": [1,]',
     '"x": "', '"x": ' + 99 * "[" + 99 * "]",
     '"\\u0070h": 1', '"stream": "12345678901234567890"', '"x": tru', '"x" 1', '"x": 1 2'],
)  # fmt: skip
def test_odd_events_are_left_to_the_reference_reader(args: str) -> None:
    assert scanned(ONE % args) is None


@compiled
@pytest.mark.parametrize(
    "text",
    ["", "{}", "5", "[]", '{"ts":1}', '{"ph":"?"}', '{"ph":"X","ts":"1"}', f"{ONE % ''},", f"{ONE % ''} {ONE % ''}"],
)
def test_odd_lists_are_left_to_the_reference_reader(text: str) -> None:
    assert scanned(text) is None


@compiled
def test_each_prefix_of_an_event_is_odd() -> None:
    event = (ONE % '"Input Dims": [[2, -3.5e1]], "x": "\\u0041\u00e9", "y": null, "stream": 7').encode()
    assert scanned(event) is not None
    assert not [size for size in range(len(event)) if scanned(event[:size]) is not None]


@compiled
def test_the_usual_trace_is_understood() -> None:
    events = json.dumps(small_job().json()["traceEvents"])[1:-1]
    found = scanned(events)
    assert found is not None
    assert len(found.columns["ts"]) > 10


@compiled
def test_a_chunk_of_more_events_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_ROOM", 3)
    assert scanned(",".join(3 * [ONE % ""])) is not None
    assert scanned(",".join(4 * [ONE % ""])) is None


@compiled
def test_an_odd_chunk_gives_no_numbers() -> None:
    interners: scanning.Interners = (Interner(), Interner(), Interner())
    reader = scanning.scanning_of(interners)
    assert reader is not None
    assert reader.scanned(b"", memoryview((ONE % '"Input Dims": [[1]]').encode())) is not None
    before = [dict(each) for each in interners]
    renamed = (ONE % '"Input Dims": [[2]]').replace("mm", "bmm").replace("cpu_op", "kernel")

    assert reader.scanned(b"", memoryview(f"{renamed},{{".encode())) is None
    assert [dict(each) for each in interners] == before
    found = reader.scanned(b"", memoryview(f"{renamed},{ONE % ''}".encode()))
    assert found is not None
    assert found.columns["name"].tolist() == [1, 0]


@compiled
def test_it_goes_with_its_last_user() -> None:
    """Compiled code is in no cycle that Python's collector would find."""
    reader = ColumnBuilder().scanning()
    assert reader is not None
    gone = weakref.ref(reader)
    del reader
    assert gone() is None


@compiled
def test_arrays_of_different_length_are_refused() -> None:
    reader = ColumnBuilder().scanning()
    assert reader is not None
    arrays = list(reader._arrays[0].all)
    for short in range(1, 5):
        given_arrays = [array[:, :9].copy() if at == short else array for at, array in enumerate(arrays)]
        with pytest.raises(ValueError, match="different length"):
            reader._scanner.scan(b"", b"", *given_arrays)


# -- without it --------------------------------------------------------------------------------------------------------


def test_it_is_not_used_where_the_variable_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "reference")
    assert ColumnBuilder().scanning() is None


def test_it_need_not_be_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scanning, "_scanner", None)
    trace = outcome(saved(tmp_path / "t.json", [KERNEL]), "compiled")
    assert isinstance(trace, Trace)
    assert len(trace) == 1


@compiled
def test_long_texts_in_the_place_of_numbers_are_not_kept() -> None:
    kept = scanning._known_integer.cache_info().currsize
    assert scanned(ONE.replace('"tid":2', f'"tid":"{"x" * 100}"') % "") is not None
    assert scanning._known_integer.cache_info().currsize == kept
