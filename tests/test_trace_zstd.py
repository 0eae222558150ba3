"""Traces packed with zstd, and the bar that shows how far reading has come."""

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from trace_files import assert_same, saved, small_job

from diagnose.cli import announcing
from diagnose.cli.announcing import announced
from diagnose.errors import UserError
from diagnose.trace import Loading, find_run, load, read, source

TEXT = json.dumps(small_job().json()).encode()
needs_zstd = pytest.mark.skipif(source.zstd is None, reason="needs backports.zstd, or Python 3.14")


def packed(text: bytes) -> bytes:
    assert source.zstd is not None
    return bytes(source.zstd.compress(text))


@needs_zstd
@pytest.mark.parametrize("block_bytes", [1, 64, 1 << 19])
@pytest.mark.parametrize("frames", [1, 3])
def test_frames_and_blocks_do_not_matter(
    frames: int, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = len(TEXT) // frames + 1
    content = b"".join(packed(TEXT[at : at + step]) for at in range(0, len(TEXT), step))
    plain = read(saved(tmp_path / "plain.json", TEXT))
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    assert_same(read(saved(tmp_path / "trace.json.zst", content)), plain)


@needs_zstd
def test_skippable_frames_and_padding(tmp_path: Path) -> None:
    skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    trace = read(saved(tmp_path / "trace.json", packed(TEXT) + skipped + bytes(300)))
    assert_same(trace, read(saved(tmp_path / "plain.json", TEXT)))


@needs_zstd
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
def test_a_stream_cut_off(share: float, tmp_path: Path) -> None:
    many = packed(b"".join([TEXT[:-1], b" " * (1 << 19), b"}"]))
    frames = packed(TEXT[:3000]) + packed(TEXT[3000:] + many)
    trace = read(saved(tmp_path / "trace.json.zst", frames[: 3000 + int(share * (len(frames) - 3000))]))
    assert trace.loss.truncated


@needs_zstd
def test_a_damaged_stream(tmp_path: Path) -> None:
    content = bytearray(packed(TEXT))
    content[8:60] = bytes(52)
    with pytest.raises(UserError, match="damaged from its start"):
        read(saved(tmp_path / "trace.json.zst", bytes(content)))


@pytest.mark.long
@needs_zstd
def test_a_bomb(tmp_path: Path) -> None:
    bomb = packed(b'{"traceEvents": [{"ph": "X", "name": "' + bytes(100 << 20))
    assert len(bomb) < 20_000
    with pytest.raises(UserError, match="64 MiB"):
        read(saved(tmp_path / "bomb.json.zst", bomb))


@needs_zstd
def test_a_rank_of_a_folder(tmp_path: Path) -> None:
    for rank in (0, 1):
        saved(tmp_path / f"rank{rank}.json.zst", packed(TEXT))
    assert [file.rank for file in find_run(tmp_path).files] == [0, 1]


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "zstd", None)
    with pytest.raises(UserError, match=r'pip install "\.\[zstd\]" in a checkout of diagnose'):
        read(saved(tmp_path / "trace.json.zst", b"\x28\xb5\x2f\xfd rest"))


def test_the_watch_sees_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BLOCK_BYTES", 1000)
    path = saved(tmp_path / "trace.json", TEXT)
    seen: list[tuple[Path, int, int]] = []
    load(path, Loading(watch=lambda *progress: seen.append(progress)))
    assert [done for _, done, _ in seen] == [*range(1000, len(TEXT), 1000), len(TEXT)]
    assert {(file, size) for file, _, size in seen} == {(path, len(TEXT))}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("patience_s", "shown"), [(0.0, True), (1e9, False)])
def test_a_bar_only_when_it_takes_long(patience_s: float, shown: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(announcing, "PATIENCE_S", patience_s)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with announced(Path("[bold]x\x1b[31m.json")) as watch:
        assert watch is not None
        watch(Path("[bold]x\x1b[31m.json"), 50, 100)
    told = sys.stderr.getvalue()
    assert ("50%" in told) == shown
    assert "\x1b[31m" not in told
    assert told.endswith("\r\x1b[K")


def test_no_bar_without_a_terminal(monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with announced(Path("x")) as watch:
        assert watch is None
    assert sys.stderr.getvalue() == ""


def many_events(number: int) -> bytes:
    """Text of several blocks, each of which is 128 KiB."""
    events = [dict(EVENT, ts=at, name=f"op {at * 7919 % 9973}") for at in range(number)]
    return json.dumps({"traceEvents": events}).encode()


EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}


@needs_zstd
@pytest.mark.parametrize("share", [0.4, 0.7, 0.95])
@pytest.mark.parametrize("block_bytes", [1 << 12, 1 << 20])
def test_all_before_the_damage_is_read(
    share: float, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks are sound or not as a whole, and those before the damaged one are all there."""
    text = many_events(10_000)
    content = bytearray(packed(text))
    content[int(share * len(content)) : int(share * len(content)) + 40] = b"\xff" * 40
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    path = saved(tmp_path / "damaged.json.zst", bytes(content))
    blocks = source.Source(path)
    found = b"".join(blocks.blocks())
    assert text.startswith(found)
    assert len(found) >= (share * len(text) // (128 << 10) - 1) * (128 << 10) > 0
    assert blocks.truncated
    assert read(path).loss.truncated


def test_gzip_before_the_damage_is_read(tmp_path: Path) -> None:
    text = many_events(10_000)
    content = bytearray(gzip.compress(text))
    content[-8:] = bytes(8)  # the checksum: all before it is sound
    path = saved(tmp_path / "damaged.json.gz", bytes(content))
    blocks = source.Source(path)
    found = b"".join(blocks.blocks())
    assert text.startswith(found)
    assert len(found) >= len(text) - (1 << 14)
    assert read(path).loss.truncated
