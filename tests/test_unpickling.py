"""Pickles of plain values without pickle: what is read is what pickle reads, and what is hostile runs nothing."""

import collections
import io
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest

from diagnose.decoding import look_ahead, opcodes, unpickling
from diagnose.decoding.flat import Values
from diagnose.decoding.unpickling import LastFetches, UnsoundPickle, read

SHARED = {"name": "f", "line": 3}
PLAIN = {
    "none": None,
    "flags": [True, False],
    "whole": [0, 1, 255, 256, -1, 1 << 31, -(1 << 40), 1 << 63],
    "real": 0.5,
    "texts": ["", "a" * 300, "ä\u20ac"],
    "bytes": [b"", b"x" * 300],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "deep": {"a": [{"b": [[]]}]},
    "shared": [SHARED, SHARED],
    "many": list(range(2500)),
    5: {},
}


class Runs:
    """Unpickled by pickle, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def value(pickled: bytes) -> Any:
    return read(io.BytesIO(pickled))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_are_read_as_pickle_reads_them(protocol: int) -> None:
    written = PLAIN if protocol > 2 else {key: PLAIN[key] for key in PLAIN if key != "bytes"}  # 2 calls for bytes

    assert value(pickle.dumps(written, protocol)) == written


def test_what_is_shared_stays_shared() -> None:
    found = value(pickle.dumps(PLAIN, 4))["shared"]

    assert found[0] is found[1]


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_that_would_run_something_runs_nothing(protocol: int, tmp_path: Path) -> None:
    made = tmp_path / "made"
    hostile = pickle.dumps({"entries": [Runs(made)]}, protocol)

    with pytest.raises(UnsoundPickle, match="nothing of it was run"):
        value(hostile)

    assert not made.exists()
    pickle.loads(hostile)
    assert made.exists()


@pytest.mark.parametrize(
    ("pickled", "why"),
    [
        (b"\x80\x02cos\nsystem\n.", r"asks for os\.system"),
        (b"\x80\x02(ios\nsystem\n.", r"asks for os\.system"),
        (pickle.dumps(collections.OrderedDict(a=1), 4), "asks for an object of Python"),
        (b"\x80\x02\x82\x01.", "asks for an object of Python"),
        (b"\x80\x02Px\n.", "asks for an object of Python"),
        (b"\x80\x02}}b.", "asks for an object of Python"),
        (b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b".", "a text of 1,152,921,504,606,846,976 bytes"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b".", "a text of"),
        (b"\x80\x02\x8b" + struct.pack("<I", 1 << 31) + b".", "a number of"),
        (b"\x80\x02" + 100 * b"]" + 100 * b"(" + b".", "nested more than 64 deep"),
        (b"\x80\x02]h\x07.", "a value that it does not have"),
        (b"\x80\x02a.", "do not fit together"),
        (b"\x80\x02]K\x01K\x02s.", "do not fit together"),
        (b"\x80\x02}]K\x02s.", "a key of it is no plain value"),
        (b"\x80\x02})K\x01s.", "a key of it is no plain value"),
        (b"\x80\x02})" + 16 * b"q\x00h\x00\x86" + b"Ns.", "a key of it is no plain value"),  # of 2 ** 16 parts
        (b"\x80\x02}\x8a\x0a" + 10 * b"\x01" + b"Ns.", "a number of 10 bytes"),  # as many as one likes have one hash
        (b"\x80\x02(e.", "do not fit together"),
        (b"\x80\x02.", "do not fit together"),
        (b"\x80\x02]K\x01", "ends in the middle"),
        (b"\x80\x02I1\n.", "opcode b'I'"),
    ],
)
def test_what_no_recorder_writes_is_refused(pickled: bytes, why: str) -> None:
    with pytest.raises(UnsoundPickle, match=why):
        value(pickled)


def test_a_number_under_which_something_is_remembered_takes_no_memory() -> None:
    bomb = b"\x80\x02]r\xff\xff\xff\xff"  # pickle makes room for four thousand million entries

    assert value(bomb + b".") == []
    with pytest.raises(UnsoundPickle, match="a value that it does not have"):
        value(bomb + b"j\xff\xff\xff\xff0.")


def test_the_machine_knows_what_the_first_pass_lets_by() -> None:
    assert set(unpickling._PLAIN) == opcodes.BARE


def test_a_file_that_is_cut_between_the_passes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpickling, "fetches", lambda window: LastFetches())

    with pytest.raises(UnsoundPickle, match="ends in the middle"):
        value(b"\x80\x02]")


def test_no_more_is_held_than_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpickling, "MOST_HELD", 100)

    with pytest.raises(UnsoundPickle, match="more than 100 values at a time"):
        value(b"\x80\x02" + 101 * b"]" + b".")


@pytest.mark.parametrize("protocol", [2, 4])
def test_dictionaries_become_smaller_as_they_are_read(protocol: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand entries of four values each are read where at most a hundred may be held beyond the list."""
    monkeypatch.setattr(unpickling, "MOST_HELD", 1400)
    entries = [{"at": i, "stack": [SHARED, SHARED]} for i in range(1000)]

    def reduced(entry: dict[Any, Any]) -> Any:
        return entry["at"] if "at" in entry else entry.get("name", entry)

    found = read(io.BytesIO(pickle.dumps({"entries": entries, "one": SHARED}, protocol)), reduced)

    assert found == {"entries": list(range(1000)), "one": "f"}


def kept_small(entry: dict[Any, Any]) -> Any:
    """An entry of a history becomes a tuple, a frame its line."""
    if "at" in entry:
        return tuple(tuple(part) if isinstance(part, list) else part for part in entry.values())
    return entry.get("line", entry)


def history(entries: int) -> dict[str, Any]:
    """Entries with lists of frames of their own, half of which the next entry asks for again, as torch writes them."""
    frames = [{"file": f"f{i}.py", "line": i} for i in range(300)]
    found: list[dict[str, Any]] = []
    for i in range(entries):
        shared = found[-1]["stack"] if i % 2 else [frames[(7 * i + j) % 300] for j in range(5)]
        found.append(
            {"at": 1 << (i % 62), "none": None, "real": i / 2, "flag": i % 3 == 0, "stack": shared, "last": -i}
        )
    return {"frames": frames, "entries": found, "again": [found[0]["stack"], found[5]["stack"]]}


@pytest.mark.parametrize("part", [64, 1000, 1 << 20])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_is_read_at_once_is_what_is_read_opcode_by_opcode(
    protocol: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the parts of the file end, between which values that nobody asks for any more are forgotten."""
    pickled = pickle.dumps(history(400), protocol)
    monkeypatch.setattr(look_ahead, "PART", part)
    at_once = read(io.BytesIO(pickled), kept_small)
    monkeypatch.setattr(Values, "flat", lambda self, data, at: None)
    one_by_one = read(io.BytesIO(pickled), kept_small)

    assert at_once["frames"] == list(range(300))
    assert at_once["entries"] == one_by_one["entries"]
    assert [list(stack) for stack in at_once["again"]] == one_by_one["again"]


def test_entries_of_a_history_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the first, in which texts stand, and those that a part of the file ends in."""
    slow: list[bytes] = []
    take = look_ahead.LookAhead.take

    def counted(self: look_ahead.LookAhead, count: int) -> bytes:
        slow.append(take(self, count))
        return slow[-1]

    pickled = pickle.dumps(history(4000), 4)
    few = pickle.dumps(history(100), 4)
    monkeypatch.setattr(look_ahead.LookAhead, "take", counted)
    read(io.BytesIO(few), kept_small)
    of_few = len(slow)
    slow.clear()
    read(io.BytesIO(pickled), kept_small)

    assert len(slow) - of_few < 3900 * 2


def test_a_tuple_is_no_key_of_what_is_read_at_once() -> None:
    entry = b"}(h\x05K\x01u"

    assert Values({5: "text"}.__getitem__).flat(entry, 0) is not None
    assert Values({5: ()}.__getitem__).flat(entry, 0) is None


@pytest.mark.parametrize(
    "entry",
    [
        b"}\x94(K\x01h\x02u",  # refers to itself
        b"}\x94(K\x01h\x63u",  # to nothing
        b"}\x94(K\x01K\x02K\x03u",  # no pairs
        b"}\x94(]\x94(K\x01eK\x02u",  # a list for a key
        b"}q\x01(K\x01K\x02u",  # under the number of something else
    ],
)
def test_what_is_not_sound_is_told_as_without_the_pattern(entry: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = b"\x80\x04]\x94(]\x94" + entry + b"h\x01e."

    def answered() -> str:
        try:
            return repr(read(io.BytesIO(pickled), lambda found: ("small", *found)))
        except UnsoundPickle as error:
            return str(error)

    at_once = answered()
    monkeypatch.setattr(Values, "flat", lambda self, data, at: None)

    assert at_once == answered()
