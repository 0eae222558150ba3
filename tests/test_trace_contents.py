"""What a file held when it was hashed: told again as long as nobody has written to it."""

import os
from pathlib import Path

import pytest
from trace_files import saved, small_job

from diagnose.trace import Loading, cache, contents, load
from diagnose.trace.cache import Cache
from diagnose.trace.contents import NAME, Contents, state_of
from diagnose.trace.packing import MARK

KEPT = Loading(cache=True)
HASH = 40 * "a"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of this test; files of any size are kept, and remembered however new they are."""
    monkeypatch.setenv("DIAGNOSE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("SMALLEST_FILE_BYTES", "SMALLEST_TEXT_BYTES", "SETTLED_AFTER_NS"):
        monkeypatch.setattr(cache, name, 0)
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(tmp_path / "trace.json", small_job().json())


def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are hashed from here on."""
    seen: list[Path] = []
    digest = cache.digest
    monkeypatch.setattr(cache, "digest", lambda path, threads: seen.append(path) or digest(path, threads))
    return seen


def test_the_second_time_nothing_is_hashed(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = hashed(monkeypatch)
    first, second = load(path, KEPT), load(path, KEPT)
    assert files == [path]
    assert second.names == first.names


def test_what_was_written_to_is_hashed_again(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(path, KEPT)
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(b"gemm", b"GEMM"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    files = hashed(monkeypatch)
    assert "GEMM" in load(path, KEPT).names
    assert files == [path]


def test_what_has_just_changed_is_not_remembered(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another change within the same tick of the file system's clock would look alike."""
    monkeypatch.setattr(cache, "SETTLED_AFTER_NS", 1 << 62)
    load(path, KEPT)
    assert not (folder / NAME).exists()


@pytest.mark.parametrize(
    "held",
    [
        b"",
        MARK,
        MARK + b"{",
        MARK + b"[]",
        MARK + b'{"1 2 3 4 5": "../../elsewhere"}',
        MARK + b'{"1": 2}',
        MARK + b"\xff",
    ],
)
def test_what_is_no_list_of_hashes_says_nothing(held: bytes, path: Path, folder: Path) -> None:
    (folder / NAME).write_bytes(held)
    known = Contents(folder)
    assert known.of((1, 2, 3, 4, 5)) is None
    assert Cache(folder).key(path) is not None


def test_a_file_of_the_user_stays(path: Path, folder: Path) -> None:
    (folder / NAME).write_bytes(b"mine")
    load(path, KEPT)
    assert (folder / NAME).read_bytes() == b"mine"


def test_what_others_may_write_to_is_not_believed(path: Path, folder: Path) -> None:
    Contents(folder).remember(state_of(path), HASH)
    assert Contents(folder).of(state_of(path)) == HASH
    (folder / NAME).chmod(0o620)
    assert Contents(folder).of(state_of(path)) is None


def test_the_latest_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_MOST", 2)
    known = Contents(folder)
    for size in range(4):
        known.remember((1, 1, size, 1, 1), HASH)
    assert [Contents(folder).of((1, 1, size, 1, 1)) for size in range(4)] == [None, None, HASH, HASH]
