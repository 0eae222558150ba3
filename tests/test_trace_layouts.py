"""The same trace in other layouts, blocks and packings is the same trace."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from trace_files import KERNEL, TRICKY, assert_same, rows, saved, small_job

from diagnose.trace import read, source

pytestmark = pytest.mark.usefixtures("either_reader")


@pytest.fixture
def reads(tmp_path: Path) -> Any:
    return lambda content, name="trace.json": read(saved(tmp_path / name, content))


LAYOUTS = {
    "compact": lambda document: json.dumps(document, separators=(",", ":")),
    "spaced": json.dumps,
    "indent 1": lambda document: json.dumps(document, indent=1),
    "indent 2": lambda document: json.dumps(document, indent=2),
    "indent 4": lambda document: json.dumps(document, indent=4),
    "keys sorted": lambda document: json.dumps(document, sort_keys=True),
    "CRLF": lambda document: json.dumps(document, indent=2).replace("\n", "\r\n"),
    "BOM": lambda document: "\ufeff" + json.dumps(document),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_does_not_matter(layout: str, reads: Any) -> None:
    document = small_job().json()
    trace = reads(LAYOUTS[layout](document))
    assert not trace.loss
    shapes = [(*row[:-1], row[-1] and [json.loads(part or b"null") for part in row[-1]]) for row in rows(trace)]
    spaced = rows(reads(json.dumps(document)))
    assert shapes == [(*row[:-1], row[-1] and [json.loads(part or b"null") for part in row[-1]]) for row in spaced]


@pytest.mark.long
@pytest.mark.parametrize("block_bytes", [1, 7, 64, 4096])
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gz"])
def test_blocks_do_not_matter(block_bytes: int, compressed: bool, reads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    document = small_job().json()
    document["traceEvents"][5:5] = TRICKY
    document["deviceProperties2"] = [{"id": 0}, {"id": 1}]  # behind the events
    text = ("\ufeff" + json.dumps(document)).encode()
    text = gzip.compress(text[:5000]) + gzip.compress(text[5000:]) if compressed else text
    whole = reads(text)
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    assert_same(reads(text), whole)
    assert not whole.loss


@pytest.mark.long
@pytest.mark.parametrize("event", TRICKY, ids=lambda event: event["name"][:12])
@pytest.mark.parametrize("block_bytes", [1, 1 << 19])
def test_boundaries_inside_an_event(
    event: dict[str, Any], block_bytes: int, reads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    trace = reads([KERNEL, event, KERNEL])
    assert [row[0] for row in rows(trace)] == ["gemm", event["name"], "gemm"]
    assert not trace.loss


def test_gzip_whatever_the_name_says(reads: Any) -> None:
    text = json.dumps(small_job().json()).encode()
    plain = reads(text)
    assert_same(reads(text, "trace.json.gz"), plain)
    assert_same(reads(gzip.compress(text), "trace.json"), plain)


def test_gzip_of_several_members_with_padding(reads: Any) -> None:
    text = json.dumps(small_job().json()).encode()
    members = b"".join(gzip.compress(text[i : i + 1000]) for i in range(0, len(text), 1000))
    assert_same(reads(members + bytes(512)), reads(text))


def test_without_isal(reads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import zlib

    text = json.dumps(small_job().json()).encode()
    plain = reads(text)
    monkeypatch.setattr(source, "fast_zlib", zlib)
    assert_same(reads(gzip.compress(text)), plain)


def test_order_of_the_events_does_not_matter(reads: Any) -> None:
    document = small_job().json()
    before = Counter(rows(reads(document)))
    random.Random(5).shuffle(document["traceEvents"])
    assert Counter(rows(reads(document))) == before
