"""Broken traces: what is sound is kept, what is lost is stated, nothing is invented."""

import gzip
import json
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace as Job
from trace_files import KERNEL, OPERATOR, assert_same, rows, saved

from diagnose.errors import UserError
from diagnose.trace import Trace, read, source
from diagnose.trace.repair import repaired


def job_of_60_events() -> bytes:
    job = Job()
    for _ in range(3):
        with job.step():
            for _ in range(3):
                job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=40)
            job.copy(4096)
    return json.dumps(job.json(), indent=1).encode()


pytestmark = pytest.mark.usefixtures("either_reader")
TEXT = job_of_60_events()
LIST_END = TEXT.rindex(b"\n ],")
EVENTS = Counter((e["name"], round(e["ts"] * 1000)) for e in json.loads(TEXT)["traceEvents"] if e["ph"] == "X")


def events_of(trace: Trace) -> Counter[tuple[str, int]]:
    return Counter((row[0], row[2]) for row in rows(trace))


@pytest.fixture
def reads(tmp_path: Path) -> Any:
    return lambda content: read(saved(tmp_path / "trace.json", content))


# -- cut off ---------------------------------------------------------------------------------------------------------
FIRST = TEXT.index(b'"traceEvents"')
CUTS = [*sorted(random.Random(1).sample(range(FIRST + 1000, len(TEXT)), 36)), LIST_END, LIST_END + 3, len(TEXT) - 1]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("block_bytes", [97, 1 << 19])
def test_a_file_cut_anywhere(cut: int, block_bytes: int, reads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    trace = reads(TEXT[:cut])
    assert events_of(trace) <= EVENTS
    assert len(trace) >= len(EVENTS) * (cut - FIRST) / (len(TEXT) - FIRST) - 15
    assert trace.loss.truncated == (cut < LIST_END + 3)
    assert trace.loss


@pytest.mark.parametrize("cut", range(0, FIRST + 400, 60))
def test_a_file_cut_before_its_first_events(cut: int, reads: Any) -> None:
    with suppress(UserError):
        assert reads(TEXT[:cut]).loss.truncated


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_gzip_stream_cut_anywhere(share: float, reads: Any) -> None:
    packed = gzip.compress(TEXT, 1)
    with suppress(UserError):
        trace = reads(packed[: int(share * len(packed))])
        assert trace.loss.truncated
        assert events_of(trace) <= EVENTS


def test_a_gzip_stream_with_a_wrong_byte(reads: Any) -> None:
    packed = gzip.compress(TEXT, 1)
    wrong = packed[:40] + bytes([packed[40] ^ 0xFF]) + packed[41:]
    with pytest.raises(UserError, match="damaged from its start"):
        reads(wrong)
    trace = reads(packed + wrong)
    assert trace.loss.truncated
    assert events_of(trace) == EVENTS


def test_trailing_space_cut_off(reads: Any) -> None:
    assert not reads(TEXT.rstrip()).loss


def test_a_comma_behind_the_last_event(reads: Any) -> None:
    trace = reads('{"traceEvents": [%s,\n], "schemaVersion": 1}' % json.dumps(KERNEL))  # noqa: UP031
    assert (len(trace), trace.metadata) == (1, {"schemaVersion": 1})
    assert not trace.loss


def test_metadata_cut_off(reads: Any) -> None:
    trace = reads(json.dumps({"traceEvents": [KERNEL], "distributedInfo": {"rank": 1}})[:-4])
    assert (len(trace), trace.metadata) == (1, {})
    assert trace.loss.kinds == {"unreadable-metadata": 1}


def test_text_behind_the_end(reads: Any) -> None:
    trace = reads(json.dumps({"traceEvents": [KERNEL], "schemaVersion": 1}) + "\x00\x00")
    assert (len(trace), trace.metadata) == (1, {"schemaVersion": 1})
    assert trace.loss.bytes == 2


# -- damage inside an event ------------------------------------------------------------------------------------------


def around(event: str) -> str:
    """A trace with the damaged event between two sound ones, which must come through whatever happens."""
    sound = json.dumps(OPERATOR)
    return '{"traceEvents": [' + ", ".join([sound, event, sound]) + '], "schemaVersion": 1}'


def damaged(old: str, new: str) -> str:
    text = json.dumps(OPERATOR | {"name": "NAME", "args": {"stream": 7, "blocks per SM": 0.5}})
    assert old in text
    return around(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("NAME", r"C:\Users\me\train.py", r"C:\Users\me\train.py"),
        ("10.5", "10,500", "NAME"),
        ("0.5}", "0,5}", "NAME"),
        ("NAME", "a\tb\nc", "a\tb\nc"),
    ],
    ids=["windows path", "decimal comma in ts", "decimal comma in args", "raw tab and newline"],
)
def test_restored_exactly(old: str, new: str, name: str, reads: Any) -> None:
    trace = reads(damaged(old, new))
    sound = ("gemm", "cpu_op", 10_500, 2_250, 0, 7, -1, -1, -1, -1, None)
    assert rows(trace) == [sound, (name, *sound[1:6], 7, *sound[7:]), sound]
    assert trace.blocks_per_sm[1] == 0.5
    assert not trace.loss
    assert trace.metadata == {"schemaVersion": 1}


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("NAME", "N\x07AME", "control-characters"),
        ("NAME", "N\udcffAME", "control-characters"),
        ("NAME", 'a "quoted" NAME', "unescaped-quote"),
        ('0.5}', "inf}", "non-finite-number"),
        ('0.5}', "inf000}", "non-finite-number"),
        ('0.5}', "-nan(ind)}", "non-finite-number"),
        ('0.5}', "NaN}", "non-finite-number"),
        ('0.5}', "Infinity}", "non-finite-number"),
        ('0.5}', "1.#INF00}", "non-finite-number"),
    ],
)  # fmt: skip
def test_the_event_is_kept_and_the_loss_stated(old: str, new: str, kind: str, reads: Any) -> None:
    trace = reads(damaged(old, new).encode("utf-8", "surrogateescape"))
    assert len(trace) == 3
    assert trace.stream[1] == 7
    assert (trace.loss.events, trace.loss.kinds) == (0, {kind: 1})


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ('"dur": 2.25', '"dur": inf', "non-finite-number"),
        ('"dur": 2.25', '"dur": "long"', "non-finite-number"),
        ('"ts": 10.5', '"ts": NaN', "non-finite-number"),
        ('"ts": 10.5', '"ts": 1e300', "non-finite-number"),
        ('"dur": 2.25', '"dur": -2.25', "negative-duration"),
        ('"dur": 2.25', '"dur": ', "unreadable-event"),
        ('"cat"', "cat", "unreadable-event"),
        ('{"ph"', '"ph"', "unreadable-text"),
    ],
)
def test_only_the_unsound_event_is_lost(old: str, new: str, kind: str, reads: Any) -> None:
    trace = reads(damaged(old, new))
    assert [row[0] for row in rows(trace)] == ["gemm", "gemm"]
    assert kind in trace.loss.kinds
    assert trace.loss.events == (0 if kind == "unreadable-text" else 1)


def test_an_inf_inside_a_name_is_left_alone() -> None:
    text, lossy = repaired(b'{"name": "f(a: inf, b:1,5}", "ph": "X", "dur": inf}')
    assert (text, lossy) == ('{"name": "f(a: inf, b:1,5}", "ph": "X", "dur": null}', ["non-finite-number"])


def test_one_damaged_event_loses_nothing_around_it(reads: Any) -> None:
    events = [json.dumps(KERNEL | {"args": {"correlation": i}}) for i in range(500)]
    events[200] = events[200].replace('"dur"', "dur")
    trace = reads('{"traceEvents": [' + ", ".join(events) + "]}")
    assert trace.correlation.tolist() == [i for i in range(500) if i != 200]
    assert (trace.loss.events, trace.loss.kinds) == (1, {"unreadable-event": 1})


@pytest.mark.long
@pytest.mark.parametrize("block_bytes", [1, 64, 1000])
def test_blocks_do_not_matter_to_damage(block_bytes: int, reads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [json.dumps(OPERATOR | {"args": {"correlation": i}}) for i in range(200)]
    for i in range(0, 200, 7):
        events[i] = events[i].replace(*[('"dur"', "dur"), ("2.25", "inf"), ("gemm", 'a "b'), ("7", "7]}]")][i % 4])
    text = '{"traceEvents": [' + ", ".join(events) + '], "deviceProperties": [{"id": 0}, {"id": 1}]}'
    whole = reads(text)
    assert len(whole) == 178
    monkeypatch.setattr(source, "BLOCK_BYTES", block_bytes)
    assert_same(reads(text), whole)


# -- events that cannot have happened --------------------------------------------------------------------------------


def at(us: float, dur: float, **more: Any) -> dict[str, Any]:
    return KERNEL | {"ts": 5e9 + us, "dur": dur, "args": {"stream": 7}} | more


HOST = at(0, 1000, cat="cpu_op", pid=5)


def test_kernels_with_zero_timestamps(reads: Any) -> None:
    trace = reads([HOST, at(10, 5), KERNEL | {"ts": 0, "dur": 0}, KERNEL | {"ts": 0, "dur": 0}])
    assert len(trace) == 2
    assert (trace.loss.events, trace.loss.kinds) == (2, {"timestamp-outside-window": 1})


def test_kernels_a_minute_off(reads: Any) -> None:
    assert reads([HOST, at(10, 5), at(61e6, 5)]).loss.kinds == {"timestamp-outside-window": 1}


def test_kernels_beside_any_work_of_the_host_are_kept(reads: Any) -> None:
    assert not reads([HOST, at(-100, 5), at(10, 5), at(100e6, 9, cat="cpu_op", pid=5), at(100e6, 5)]).loss


def test_a_kernel_that_covers_its_successors(reads: Any) -> None:
    trace = reads([HOST, *(at(10 * i, 9) for i in range(5)), at(50, 3.4e6), *(at(60 + 10 * i, 9) for i in range(5))])
    assert trace.dur.max() == 1_000_000
    assert (trace.loss.events, trace.loss.kinds) == (1, {"impossible-duration": 1})


def test_a_long_last_kernel_is_possible(reads: Any) -> None:
    assert not reads([HOST, at(10, 9), at(20, 9), at(30, 3.4e6)]).loss


def test_kernels_of_other_streams_may_overlap(reads: Any) -> None:
    assert not reads([HOST, at(0, 3.4e6, args={"stream": 20}), *(at(10 * i, 9) for i in range(5))]).loss


# -- anything --------------------------------------------------------------------------------------------------------


def mangled(random: random.Random, text: bytes) -> bytes:
    """`text` after a few cuts, flips, repetitions, exchanges or insertions."""
    broken = bytearray(text)
    for _ in range(random.randint(1, 6)):
        a, b = sorted(random.randrange(len(broken)) for _ in range(2))
        b = min(b, a + random.choice([1, 10, 300, 3000]))
        what = random.randrange(5)
        if what == 0:
            del broken[a:b]
        elif what == 1:
            broken[a] ^= 1 << random.randrange(8)
        elif what == 2:
            broken[a:a] = broken[a:b]
        elif what == 3:
            broken[a:b] = bytes(random.sample(broken[a:b], b - a))
        else:
            broken[a:a] = random.choice([b'"', b"}", b"]", b"{", b"[", b",", b"\\", b"\x00", b"\xff", b"inf", b"]}"])
    return bytes(broken)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_no_damage_ends_in_a_traceback(packed: bool, tmp_path: Path) -> None:
    seeded, text = random.Random(7), gzip.compress(TEXT, 1) if packed else TEXT
    for _ in range(200):
        path = saved(tmp_path / "trace.json", mangled(seeded, text))
        try:
            trace = read(path)
        except UserError:
            continue
        assert len(trace) == len(trace.name) == len(trace.shape)


@pytest.mark.long
def test_a_damaged_event_of_a_megabyte_is_looked_at_once(reads: Any) -> None:
    """Where what is behind it is sought from each of its characters, this does not end."""
    for bomb in (
        '"name": "' * 100_000,
        '"' * 900_000,
        "\\" * 900_000,
        ": 1" * 300_000,
        "{" * 900_000,
        "} , " * 200_000,
    ):
        assert len(reads(damaged("NAME", bomb))) >= 2


@pytest.mark.long
def test_a_file_of_nothing_but_damage_is_refused(reads: Any) -> None:
    """Each damaged event is looked at once, or this does not end."""
    with pytest.raises(UserError, match="unreadable"):
        reads('{"traceEvents": [' + '{"ph": } , ' * 300_000 + "]}")
