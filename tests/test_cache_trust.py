"""The cache believes only what the user alone can have written, and removes only what it wrote itself."""

import json
import os
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from trace_files import TRICKY, assert_same, saved, small_job

from diagnose.trace import Loading, cache, load, read
from diagnose.trace.cache import Cache
from diagnose.trace.packing import _END, MARK, Corrupt, unpack

KEPT = Loading(cache=True)
MINE = b"mine, and no cache's"
LIKE_AN_ENTRY = f"{40 * 'a'}-1f4-{16 * 'b'}.trace"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of this test; files of any size are kept."""
    monkeypatch.setenv("DIAGNOSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SMALLEST_FILE_BYTES", 0)
    monkeypatch.setattr(cache, "SMALLEST_TEXT_BYTES", 0)
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    document = small_job().json()
    document["traceEvents"] += TRICKY
    return saved(tmp_path / "trace.json", document)


@pytest.fixture
def entry(path: Path, folder: Path) -> Path:
    """The entry of the trace at `path`."""
    load(path, KEPT)
    (found,) = folder.iterdir()
    return found


def another(path: Path) -> Path:
    return saved(path.parent / "another.json", path.read_bytes().replace(b"gemm", b"GEMM"))


def aged(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    os.utime(path, (time.time() - 1e6, time.time() - 1e6))
    return path


def is_used(path: Path, folder: Path) -> bool:
    key = Cache(folder).key(path)
    return key is not None and Cache(folder).get(key, path) is not None


def free_bytes(monkeypatch: pytest.MonkeyPatch, free: Callable[[], int]) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free()))


def test_files_of_the_user_stay_in_the_folder(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they are called, even as entries are, and however little room there is."""
    names = ("film.part", "diagnose-12345678.part", "tmpabcdefgh.part", "results.trace", LIKE_AN_ENTRY)
    mine = [aged(folder / name, MINE) for name in names]
    (folder / LIKE_AN_ENTRY.replace("a", "c")).symlink_to(mine[0])
    load(path, KEPT)
    free_bytes(monkeypatch, lambda: 0)
    load(another(path), KEPT)
    assert {file.read_bytes() for file in mine} == {MINE}
    assert (folder / LIKE_AN_ENTRY.replace("a", "c")).is_symlink()


def test_entries_go_when_the_disk_is_nearly_full(
    path: Path, folder: Path, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older first; one of an older version, which only ends as entries do, too."""
    older = aged(folder / LIKE_AN_ENTRY, entry.read_bytes()[len(MARK) :])
    free_bytes(monkeypatch, lambda: (2 << 30) - 1 + (2 << 30) * (not older.exists()))
    load(another(path), KEPT)
    assert not older.exists()
    assert entry.exists()
    assert is_used(another(path), folder)


def test_nothing_goes_where_that_would_not_make_room(
    path: Path, entry: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_bytes(monkeypatch, lambda: 0)
    load(another(path), KEPT)
    assert [*folder.iterdir()] == [entry]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used(mode: int, path: Path, folder: Path, entry: Path) -> None:
    folder.chmod(mode)
    assert not is_used(path, folder)
    assert_same(load(another(path), KEPT), read(another(path)))
    assert [*folder.iterdir()] == [entry]


def test_a_folder_of_another_is_not_used(
    path: Path, folder: Path, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not is_used(path, folder)
    load(another(path), KEPT)
    assert [*folder.iterdir()] == [entry]


def test_an_entry_of_another_is_not_used(
    path: Path, folder: Path, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "is_own_folder", lambda _: True)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not is_used(path, folder)


def test_an_entry_that_others_may_write_to_is_not_used(path: Path, folder: Path, entry: Path) -> None:
    assert is_used(path, folder)
    entry.chmod(0o620)
    assert not is_used(path, folder)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_file_is_as_good_as_none(kind: str, path: Path, folder: Path, entry: Path) -> None:
    """A pipe that nobody writes to would be waited for without end."""
    kept = entry.rename(path.parent / "kept.trace")
    {"pipe": os.mkfifo, "link": lambda at: at.symlink_to(kept), "folder": os.mkdir}[kind](entry)
    assert not is_used(path, folder)
    assert_same(load(path, KEPT), read(path))


Footer = dict[str, Any]
FORGED: dict[str, Callable[[Footer], object]] = {
    "a column of another type": lambda f: f["columns"]["ts"].update(dtype="float64"),
    "a column of a type there is not": lambda f: f["columns"]["ts"].update(dtype="object"),
    "a column of wider numbers": lambda f: f["columns"]["stream"].update(dtype="int64"),
    "times in narrower numbers": lambda f: f["columns"]["dur"].update(dtype="int32"),
    "rates in whole numbers": lambda f: f["columns"]["blocks_per_sm"].update(dtype="int64"),
    "a column missing": lambda f: f["columns"].pop("dur"),
    "a column too many": lambda f: f["columns"].update(path=f["columns"]["ts"]),
    "a column beyond the file": lambda f: f["columns"]["ts"].update(at=1 << 40),
    "a column before the file": lambda f: f["columns"]["ts"].update(at=-5),
    "a column between two numbers": lambda f: f["columns"]["ts"].update(at=f["columns"]["ts"]["at"] + 4),
    "a number that its type cannot hold": lambda f: f["columns"]["stream"].update(constant=1 << 40),
    "times beyond all time": lambda f: f["columns"]["ts"].update(constant=(1 << 63) - 1),
    "a duration below zero": lambda f: f["columns"]["dur"].update(constant=-1),
    "a name that is not there": lambda f: f["columns"]["name"].update(constant=10_000),
    "a category before the first": lambda f: f["columns"]["cat"].update(constant=-1),
    "a shape that is not there": lambda f: f["columns"]["shape"].update(constant=10_000),
    "a collective of no event": lambda f: f["collectives"]["row"].update(constant=1 << 30),
    "more events than text": lambda f: f.update(rows=1 << 40),
    "more text than the file can hold": lambda f: f.update(rows=1 << 40, size=1 << 49),
    "fewer events than nothing": lambda f: f.update(rows=-1),
    "collectives without their texts": lambda f: f.update(calls=f["calls"] + 1),
    "texts of another length": lambda f: f["texts"]["group"].append("x"),
    "texts that are numbers": lambda f: f["texts"].update(group=[1] * f["calls"]),
    "texts of another name": lambda f: f["texts"].update(names=f["texts"].pop("name")),
    "names that are numbers": lambda f: f.update(names=list(range(len(f["names"])))),
    "names as one text": lambda f: f.update(names="x" * len(f["names"])),
    "shapes of two": lambda f: f.update(shapes=[["a", "b"]] * len(f["shapes"])),
    "shapes that are no bytes": lambda f: f.update(shapes=[["\u20ac", "", ""]] * len(f["shapes"])),
    "memory as text": lambda f: f.update(memory=[["0", "1"]]),
    "memory without a bucket": lambda f: f.update(memory=[{"device": 0, "shift": 0, "columns": [[]] * 5}]),
    "memory of columns that differ": lambda f: f.update(
        memory=[{"device": 0, "shift": 0, "columns": [[1], [1], [1], [1], [1, 2]]}]
    ),
    "memory in buckets wider than all time": lambda f: f.update(
        memory=[{"device": 0, "shift": 99, "columns": [[1]] * 5}]
    ),
    "metadata as a list": lambda f: f.update(metadata=[["baseTimeNanoseconds", 1]]),
    "a loss of another type": lambda f: f["loss"].update(events="many"),
    "kinds of loss as a list": lambda f: f["loss"].update(kinds=["truncated"]),
    "a size as text": lambda f: f.update(size="1"),
    "something more": lambda f: f.update(code="import os"),
}


def forged(entry: bytes, change: Callable[[Footer], object]) -> bytes:
    """The entry with another footer, and the right checksum for it."""
    size, _, magic = _END.unpack(entry[-_END.size :])
    footer = json.loads(entry[-_END.size - size : -_END.size])
    change(footer)
    text = json.dumps(footer).encode()
    return entry[: -_END.size - size] + text + _END.pack(len(text), zlib.crc32(text), magic)


@pytest.mark.parametrize("change", FORGED)
def test_a_right_checksum_is_no_trust(change: str, path: Path, folder: Path, entry: Path) -> None:
    sound = entry.read_bytes()
    entry.write_bytes(forged(sound, FORGED[change]))
    key = Cache(folder).key(path)
    assert key is not None
    with entry.open("rb") as file, pytest.raises(Corrupt):
        unpack(file, str(path), 1 << 30)
    assert Cache(folder).get(key, path) is None
    entry.write_bytes(forged(sound, lambda footer: None))
    assert is_used(path, folder)
