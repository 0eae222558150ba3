"""The compiled reader in a thread of its own: a chunk's text is in two parts, and what it found stays for a while."""

from pathlib import Path

import pytest
from scanned_texts import differences, outcome
from trace_files import saved

from diagnose.trace import Trace, scanning
from diagnose.trace.builder import ColumnBuilder, Interner

pytestmark = pytest.mark.skipif(scanning._scanner is None, reason="the compiled reader is not installed")
ONE = '{"ph":"X","cat":"cpu_op","name":"mm","pid":1,"tid":2,"ts":5.5,"dur":1,"args":{%s}}'


def test_a_text_in_two_parts_is_read_as_one() -> None:
    """The call stands in either part; what tells of it begins where it does in the text of both."""
    call = ONE % '"Collective name": "allreduce", "Seq": 3'
    reader = ColumnBuilder().scanning()
    assert reader is not None
    for first, rest in ((call, ONE % ""), (ONE % "", call), (f"{call},{call}", f"{ONE % ''},{call}")):
        found = reader.scanned(first.encode(), memoryview(rest.encode()))
        together = ColumnBuilder().scanning()
        assert together is not None
        whole = together.scanned(b"", memoryview(f"{first},{rest}".encode()))
        assert found is not None
        assert whole is not None
        assert [(row, args.seq) for row, args in found.calls] == [(row, args.seq) for row, args in whole.calls]
        assert [column.tolist() for column in found.columns.values()] == [
            pytest.approx(column.tolist(), nan_ok=True) for column in whole.columns.values()
        ]


def test_a_part_that_ends_within_an_event_is_odd() -> None:
    reader = ColumnBuilder().scanning()
    assert reader is not None
    event = (ONE % "").encode()
    assert reader.scanned(event[:40], memoryview(event[40:])) is None
    assert reader.scanned(event, memoryview(event)) is not None


def test_what_was_scanned_last_stays_while_the_next_is() -> None:
    reader = ColumnBuilder().scanning(ahead=True)
    assert reader is not None
    found = reader.scanned(b"", memoryview((ONE % "").encode()))
    assert found is not None
    assert reader.scanned(b"", memoryview((ONE % "").replace("5.5", "9").encode())) is not None
    assert found.columns["ts"].tolist() == [5500]


def test_what_is_salvaged_at_the_end_comes_behind_what_was_scanned(tmp_path: Path) -> None:
    first, last = ONE % "", (ONE % "").replace("5.5", "9")
    path = saved(tmp_path / "t.json", f'{{"traceEvents": [{first} ,{last}],\\"traceName": "t"}}')

    trace = outcome(path, "compiled", ahead=True)

    assert differences(trace, outcome(path, "reference")) == []
    assert isinstance(trace, Trace)
    assert trace.ts.tolist() == [5500, 9000]


def test_one_thread_scans_at_a_time() -> None:
    """Else two would write to the same tables; the one that asks for a number lets others run."""
    refused = []

    class Asking(Interner):
        def __missing__(self, key: str) -> int:
            try:
                reader._scanner.scan(b"", b"{}", *reader._arrays[0].all)
            except RuntimeError as error:
                refused.append(str(error))
            return super().__missing__(key)

    reader = scanning.scanning_of((Asking(), Interner(), Interner()))
    assert reader is not None
    assert reader.scanned(b"", memoryview((ONE % "").encode())) is not None
    assert refused == ["another thread is scanning"]
