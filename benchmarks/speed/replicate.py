"""A large trace from a small one: its events again and again, shifted in time, with ids and steps renumbered.

    python -m benchmarks.speed.replicate sample_traces/synthetic-memory-bound.json.gz big.json --size 1G

The result is synthetic: it has the size, the text layout and the mix of events of a large trace, and no more different
names and shapes than the small one. Its numbers say nothing about training. Large traces are of few large steps, and
some readers take time for each: a few steps over many copies take the place of those of the small trace.
"""

import argparse
import gzip
import re
from collections.abc import Iterator
from pathlib import Path

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_LIST_END = re.compile(rb"\}\s*\]\s*(?:,\s*\"|\})")
_SLOT = re.compile(
    rb'(?P<ts>"ts"\s*:\s*"?)(-?\d+(?:\.\d+)?)'
    rb'|(?P<id>"(?:correlation|External id|external id|id|Ev Idx)"\s*:\s*)(\d+)'
    rb'|(?P<step>"name"\s*:\s*"ProfilerStep#)(\d+)'
)
_STEP = b"ProfilerStep#"
_THREAD = re.compile(rb'"cpu_op"[^{}]*?("pid"\s*:\s*\d+,\s*"tid"\s*:\s*\d+,\s*)')
STEPS = 6
_DUR = re.compile(rb'"dur"\s*:\s*"?(\d+(?:\.\d+)?)')
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Replica:
    """The list of events of one trace, cut at the numbers that change from copy to copy."""

    def __init__(self, text: bytes) -> None:
        begin = _LIST.search(text)
        ends = list(_LIST_END.finditer(text))
        if begin is None or not ends:
            raise SystemExit("no list of events")
        self.head, self.tail = text[: begin.end()], text[ends[-1].start() + 1 :]
        self._split(text[begin.end() : ends[-1].start() + 1])

    def _split(self, events: bytes) -> None:
        self._literals, self._slots, at = [], [], 0
        for match in _SLOT.finditer(events):
            kind = next(name for name, found in match.groupdict().items() if found)
            number = match.start(kind) + len(match[kind])
            self._literals.append(events[at:number])
            value = _ns(events[number : match.end()]) if kind == "ts" else int(events[number : match.end()])
            self._slots.append((kind, value))
            at = match.end()
        self._literals.append(events[at:])
        found = _THREAD.search(events)
        self._thread = found[1] if found else b'"pid": 1, "tid": 1, '
        stamps = [value for kind, value in self._slots if kind == "ts"]
        longest = max((_ns(match[1]) for match in _DUR.finditer(events)), default=0)
        self._first_ns = min(stamps)
        self._period = {"ts": max(stamps) - min(stamps) + min(longest, 10**9) + 1000}
        for kind in ("id", "step"):
            self._period[kind] = 1 + max((value for k, value in self._slots if k == kind), default=0)

    def copy(self, number: int) -> bytes:
        """The text of the events as they stand in copy `number`."""
        parts: list[bytes] = []
        for literal, (kind, value) in zip(self._literals, self._slots, strict=False):
            if kind == "step":
                literal = literal[: -len(_STEP)] + b"Copied step#"
            shifted = value + number * self._period[kind]
            parts += literal, (_us(shifted) if kind == "ts" else b"%d" % shifted)
        return b"".join([*parts, self._literals[-1]])

    def until(self, size: int) -> Iterator[bytes]:
        """The pieces of a trace of at least `size` bytes."""
        copies = -(-size // len(self.copy(1)))
        steps = min(STEPS, copies)
        yield self.head
        for step in range(steps):
            first, end = copies * step // steps, copies * (step + 1) // steps
            yield (b",\n  " if step else b"\n  ") + self._step(step, first, end)
            for number in range(first, end):
                yield b"," + self.copy(number)
        yield self.tail

    def _step(self, step: int, first: int, end: int) -> bytes:
        """The mark of a step over the copies `first` to `end`, on the thread of the first operator."""
        start, period = self._first_ns + first * self._period["ts"], self._period["ts"]
        return b'{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", %s"ts": %s, "dur": %s}' % (
            step, self._thread, _us(start), _us((end - first) * period)
        )  # fmt: skip


def _us(ns: int) -> bytes:
    return b"%d.%03d" % divmod(ns, 1000)


def _ns(us: bytes) -> int:
    whole, _, fraction = us.partition(b".")
    return int(whole) * 1000 + int(fraction[:3].ljust(3, b"0") or b"0")


def size_of(text: str) -> int:
    """Bytes of "200M", "1G" or a plain number."""
    unit = _UNITS.get(text[-1:].upper())
    return int(float(text[:-1]) * unit) if unit else int(text)


def replicate(source: Path, target: Path, size: int) -> None:
    """Writes a trace of at least `size` bytes of text, compressed when `target` ends in `.gz`."""
    text = source.read_bytes()
    replica = Replica(gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text)
    with gzip.open(target, "wb", 1) if target.suffix == ".gz" else target.open("wb") as file:
        for piece in replica.until(size):
            file.write(piece)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--size", type=size_of, default=size_of("1G"))
    arguments = parser.parse_args()
    replicate(arguments.source, arguments.target, arguments.size)
