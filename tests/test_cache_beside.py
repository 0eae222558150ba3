"""What the cache does beside the reading and the analysis: hash the file, and store its trace."""

import threading
from pathlib import Path

import pytest
from trace_files import saved, small_job

from diagnose.commands.agents.roots import Roots
from diagnose.errors import UserError
from diagnose.trace import Loading, Trace, cache, load, load_all, read
from diagnose.trace.background import in_background

KEPT = Loading(cache=True, jobs=1)
PATIENCE_S = 60  # of a test whose threads would wait for each other


@pytest.fixture(autouse=True)
def folder(all_cached: Path) -> Path:
    """The cache of this test; files of any size are kept."""
    return all_cached


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(tmp_path / "trace.json", small_job().json())


def test_a_new_file_is_read_while_it_is_hashed(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest, is_read, waited = cache.digest, threading.Event(), []

    def hashes_once_it_is_read(path: Path, threads: int) -> str:
        waited.append(is_read.wait(PATIENCE_S))
        return digest(path, threads)

    def reads(path: Path, _: object) -> Trace:
        is_read.set()
        return read(path)

    monkeypatch.setattr(cache, "digest", hashes_once_it_is_read)
    monkeypatch.setattr("diagnose.trace.loading.read", reads)
    load(path, KEPT)
    assert waited == [True]
    assert len(list(folder.iterdir())) == 1


def test_a_trace_is_stored_while_it_is_used(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack, is_used, waited = cache.pack, threading.Event(), []

    def packs_once_it_is_used(trace: Trace, file: object) -> None:
        waited.append(is_used.wait(PATIENCE_S))
        pack(trace, file)  # type: ignore[arg-type]

    monkeypatch.setattr(cache, "pack", packs_once_it_is_used)
    for trace in load_all([path], KEPT):
        trace.loss.count("found-by-who-uses-it")
        is_used.set()
    assert waited == [True]
    assert load(path, KEPT).loss.kinds == {}


def test_each_of_several_files_is_kept(path: Path, folder: Path, tmp_path: Path) -> None:
    others = [saved(tmp_path / f"{name}.json", path.read_bytes().replace(b"gemm", name)) for name in (b"aaaa", b"bbbb")]
    assert len(list(load_all([path, *others], KEPT))) == 3
    assert len(list(folder.glob("*.trace"))) == 3


def test_a_file_that_cannot_be_read_waits_for_no_hash(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    monkeypatch.setattr(cache, "digest", lambda path, threads: str(never.wait(PATIENCE_S)))
    with pytest.raises(UserError):
        load(saved(tmp_path / "no-trace.json", "[1, 2"), KEPT)
    never.set()
    assert not folder.exists() or not list(folder.iterdir())


def test_what_goes_on_beside_is_confined_as_who_asked_is(tmp_path: Path) -> None:
    outside = saved(tmp_path / "outside.json", "{}")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link.json").symlink_to(outside)
    with Roots([tmp_path / "runs"]).confined():
        outcome = in_background((tmp_path / "runs" / "link.json").read_bytes)
        with pytest.raises(PermissionError):
            outcome.result(PATIENCE_S)
