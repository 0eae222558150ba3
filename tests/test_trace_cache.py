"""Loaded traces on disk: the same trace comes back, and an entry that cannot be used is as good as none."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from trace_files import KERNEL, TRICKY, assert_same, saved, small_job

from diagnose.cli import main
from diagnose.trace import Loading, Trace, cache, load, read
from diagnose.trace.cache import Cache, digest
from diagnose.trace.cache_folder import default_folder
from diagnose.trace.packing import MARK, Corrupt, pack, unpack

ODD = KERNEL | {"name": "a \ud800 b", "args": {"stream": -5, "bytes": 1 << 61, "blocks per SM": 0.25}}
KEPT = Loading(cache=True)


@pytest.fixture(autouse=True)
def folder(all_cached: Path) -> Path:
    """The cache of this test; files of any size are kept."""
    return all_cached


@pytest.fixture
def path(tmp_path: Path) -> Path:
    document = small_job().json()
    document["traceEvents"] += [*TRICKY, ODD]
    return saved(tmp_path / "trace.json", document)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are parsed from here on."""
    seen: list[Path] = []
    monkeypatch.setattr("diagnose.trace.loading.read", lambda path, _: seen.append(path) or read(path))
    return seen


def test_the_second_time_nothing_is_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = parsed(monkeypatch)
    first, second = load(path, KEPT), load(path, KEPT)
    assert files == [path]
    assert_same(first, second)
    assert (first.path, first.size, len(first)) == (second.path, second.size, len(second))


def test_a_copy_elsewhere_finds_the_entry(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(path, KEPT)
    files = parsed(monkeypatch)
    copy = saved(tmp_path / "copy.json", path.read_bytes())
    assert load(copy, KEPT).path == str(copy)
    assert files == []


def test_another_content_of_the_same_size_and_time_is_read(path: Path, folder: Path) -> None:
    """Tools that write in place and restore the time of the file change nothing but its content."""
    load(path, KEPT)
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(b"gemm", b"GEMM"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert path.stat().st_size == stat.st_size
    assert "GEMM" in load(path, KEPT).names
    assert len(entries(folder)) == 2


def test_a_loss_is_kept(tmp_path: Path) -> None:
    path = saved(tmp_path / "cut.json", json.dumps(small_job().json())[:-900])
    first, second = load(path, KEPT), load(path, KEPT)
    assert first.loss.truncated
    assert second.loss == first.loss


def test_another_version_of_the_loader_finds_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(path, KEPT)
    files = parsed(monkeypatch)
    monkeypatch.setattr(cache, "_loader", lambda reader: "another")
    load(path, KEPT)
    assert files == [path]


def test_another_reader_finds_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(path, KEPT)
    files = parsed(monkeypatch)
    monkeypatch.setattr(cache, "reader_in_use", lambda: "another")
    load(path, KEPT)
    assert files == [path]


def damages() -> dict[str, Callable[[bytes], bytes]]:
    return {
        "empty": lambda entry: b"",
        "cut": lambda entry: entry[:-20],
        "cut in front": lambda entry: entry[5:],
        "a bit in a column": lambda entry: bytes([entry[0] ^ 1]) + entry[1:],
        "a bit in the footer": lambda entry: entry[:-200] + bytes([entry[-200] ^ 1]) + entry[-199:],
        "a footer's size beyond the file": lambda entry: entry[:-24] + b"\xff" * 8 + entry[-16:],
        "something else": lambda entry: b"{}" * 1000,
    }


@pytest.mark.parametrize("damage", damages())
def test_a_corrupt_entry_is_ignored_and_replaced(damage: str, path: Path, folder: Path) -> None:
    whole = load(path, KEPT)
    (entry,) = entries(folder)
    sound = entry.read_bytes()
    entry.write_bytes(damages()[damage](sound))
    assert_same(load(path, KEPT), whole)
    assert entry.read_bytes() == sound


@given(at=st.integers(0, 1 << 20), value=st.integers(0, 255), cut=st.integers(0, 1 << 20))
def test_no_damage_to_an_entry_shows(at: int, value: int, cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    trace = read(saved(tmp_path_factory.getbasetemp() / "packed.json", small_job().json()))
    target = tmp_path_factory.getbasetemp() / "packed"
    with target.open("wb") as file:
        pack(trace, file)
    entry = bytearray(target.read_bytes())
    entry[at % len(entry)] = value
    target.write_bytes(entry[: cut % (2 * len(entry))])
    with target.open("rb") as file, contextlib.suppress(Corrupt):
        assert_same(unpack(file, trace.path), trace)


@pytest.mark.parametrize("values", [[0], [-1, -1], [5, 260], [0, 1 << 40], [-(1 << 63), (1 << 63) - 1], [3, -70000]])
def test_integers_come_back(values: list[int], path: Path, tmp_path: Path) -> None:
    few = read(path).select(np.arange(len(read(path))) < len(values))
    few.ts[:] = values
    with (tmp_path / "packed").open("w+b") as file:
        pack(few, file)
        assert unpack(file, few.path, is_whole=False).ts.tolist() == values


def test_a_trace_written_to_while_it_is_read_is_not_kept(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads_while_it_grows(path: Path, _: object) -> Trace:
        trace = read(path)
        path.write_bytes(path.read_bytes() + b"\n")
        return trace

    monkeypatch.setattr("diagnose.trace.loading.read", reads_while_it_grows)
    load(path, KEPT)
    assert entries(folder) == []


def test_threads_that_load_the_same_trace_at_once(path: Path, folder: Path) -> None:
    whole, found = read(path), []
    threads = [threading.Thread(target=lambda: found.extend(load(path, KEPT) for _ in range(5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    for trace in found:
        assert_same(trace, whole)
    assert len(entries(folder)) == 1


def test_the_least_recently_used_entries_make_room(path: Path, tmp_path: Path, folder: Path) -> None:
    size = 0
    for seconds_ago, name in ((30, "aaaa"), (20, "bbbb"), (10, "cccc")):
        file = saved(tmp_path / f"{name}.json", path.read_bytes().replace(b"gemm", name.encode()))
        key = Cache(folder).key(file)
        assert key is not None
        Cache(folder, limit=int(2.5 * size) or 1 << 30).put(key, file, read(file))
        size = (folder / key.name).stat().st_size
        os.utime(folder / key.name, (time.time() - seconds_ago, time.time() - seconds_ago))
    assert [has(folder, tmp_path / f"{name}.json") for name in ("aaaa", "bbbb", "cccc")] == [False, True, True]


def has(folder: Path, path: Path) -> bool:
    key = Cache(folder).key(path)
    return key is not None and Cache(folder).get(key, path) is not None


def test_a_trace_beyond_the_limit_is_not_kept(path: Path, folder: Path) -> None:
    key = Cache(folder, limit=100).key(path)
    assert key is not None
    Cache(folder, limit=100).put(key, path, read(path))
    assert entries(folder) == []


def test_what_a_killed_process_left_is_swept(path: Path, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for name, age in (("diagnose-12345old.part", 7200), ("diagnose-12345new.part", 10)):
        (folder / name).write_bytes(MARK + b"some columns")
        os.utime(folder / name, (time.time() - age, time.time() - age))
    load(path, KEPT)
    assert [each.name for each in entries(folder) if each.suffix == ".part"] == ["diagnose-12345new.part"]


def test_a_folder_that_cannot_be_written_does_no_harm(path: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("DIAGNOSE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert_same(load(path, KEPT), read(path))


def test_a_small_trace_is_not_kept(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("DIAGNOSE_CACHE_DIR", str(folder))
    load(path, KEPT)
    assert not folder.exists()


def test_entries_are_for_their_user_alone(path: Path, folder: Path) -> None:
    load(path, KEPT)
    assert (folder.stat().st_mode & 0o077, entries(folder)[0].stat().st_mode & 0o077) == (0, 0)


def test_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIAGNOSE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/me")
    assert default_folder() == Path("/var/tmp/me/diagnose")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_folder() == Path.home() / ".cache/diagnose"


def test_the_digest_sees_every_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_SEGMENT_BYTES", 7)
    text = bytes(range(50))
    whole = digest(saved(tmp_path / "a", text))
    assert digest(saved(tmp_path / "b", text)) == whole
    for at in range(50):
        changed = text[:at] + b"!" + text[at + 1 :] if text[at] != 33 else text + b"x"
        assert digest(saved(tmp_path / "b", changed)) != whole


@pytest.mark.parametrize(("options", "kept"), [([], {".rules", ".trace"}), (["--no-cache"], set())])
def test_the_command_keeps_unless_told_not_to(options: list[str], kept: set[str], path: Path, folder: Path) -> None:
    first = CliRunner().invoke(main, ["analyze", str(path), "--json", *options])
    second = CliRunner().invoke(main, ["analyze", str(path), "--json", *options])
    assert (first.exit_code, first.stdout) == (0, second.stdout)
    assert {entry.suffix for entry in entries(folder)} == kept
