"""The times of all steps of a rank, in a file of lines that is whole up to its last one, however the process ends.

A line is a JSON object: the begin of a loop, a block of steps, or an event. The training thread only takes notes;
another one writes. Disk and memory are bounded: after so many samples each stands for twice as many steps.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import sys
import time

VERSION = 1
BLOCK_STEPS = 64
BLOCK_S = 10.0  # that long a block is held back at most, times the steps of a sample
EXACT_SAMPLES = 200_000  # one for each step; then twice as many steps in each, for half as many samples
MOST_READINGS = 256  # of the machine that wait to be written
MOST_WAITING = 20_000  # notes in memory, if the file cannot be written for long
_FLOCK = "hhqqi"  # struct flock of <fcntl.h>: type, whence, start, length, process
_LOCKED_BY_ANOTHER = (11, 13)  # EAGAIN, EACCES


class StepLog:
    """Appends to `path`; lines of an earlier process of the job stay.

    Raises:
        OSError: the file cannot be written, or another process of the job writes it.
    """

    def __init__(self, path: str, begins: dict[str, object]) -> None:
        self.lost = 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            _lock(self._file)
            size = os.fstat(self._file).st_size
            self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
            self._write([{"armed": VERSION, "pid": os.getpid(), "t": round(time.time(), 3), **begins}])
        except BaseException:
            os.close(self._file)
            raise
        self._noted: list[tuple[int, int, bool, float] | dict[str, object]] = []
        self._covers, self._written = 1, 0
        self._block = _Block(self._covers)
        self._lines: list[dict[str, object]] = []
        self._readings: list[dict[str, object]] = []
        self._since = self._read_since = time.monotonic()

    def add(self, step: int, ns: int, profiled: bool, ago_s: float = 0.0) -> None:
        """Note a step that ended after `ns`, `ago_s` seconds ago; `ns` is 0 if its time is not known."""
        if len(self._noted) < MOST_WAITING:
            self._noted.append((step, ns, profiled, time.time() - ago_s))
        else:
            self.lost += 1

    def tell(self, what: str, **more: object) -> None:
        """Note another event, to be written with the next block."""
        self._noted.append({"what": what, "t": round(time.time(), 3), **more})

    def note_reading(self, line: dict[str, object]) -> None:
        """A reading of the machine, a line of its own; any thread may."""
        if len(self._readings) < MOST_READINGS:
            self._readings.append(line)

    def write(self, to_the_end: bool = False) -> None:
        """Write the lines that are due, or all; any thread may, one at a time.

        Raises:
            OSError: it cannot be written; these lines are lost.
        """
        self._take_what_is_due(to_the_end)
        lines, self._lines = self._lines, []
        if to_the_end or lines or time.monotonic() - self._read_since > BLOCK_S:
            count = len(self._readings)
            lines += self._readings[:count]
            del self._readings[:count]
            self._read_since = time.monotonic()
        if lines:
            self._write(lines)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _take_what_is_due(self, to_the_end: bool) -> None:
        count = len(self._noted)
        told = any(isinstance(note, dict) for note in self._noted[:count])
        waited = time.monotonic() - self._since > BLOCK_S * self._covers
        if not (to_the_end or told or waited or count >= BLOCK_STEPS * self._covers):
            return
        for note in self._noted[:count]:
            self._take(note)
        del self._noted[:count]
        self._end_block(whole=not (told or to_the_end))
        self._since = time.monotonic()

    def _take(self, note: tuple[int, int, bool, float] | dict[str, object]) -> None:
        if isinstance(note, dict):
            self._end_block()
            self._lines.append(note)
            return
        step, ns, profiled, at = note
        if not self._block.continues(step, profiled):
            self._end_block()
            self._block = _Block(1 if profiled else self._covers, profiled)
        self._block.add(step, ns, at)

    def _end_block(self, whole: bool = False) -> None:
        """End the block and keep its lines; if it goes on (`whole`), the begun sample stays for the next one."""
        block = self._block
        lines = block.lines(whole)
        self._lines += lines
        if not block.profiled:
            self._written += sum(len(line["us"]) for line in lines)  # type: ignore[misc,arg-type]
            if self._written >= EXACT_SAMPLES // min(self._covers, 2):
                self._covers, self._written = 2 * self._covers, 0
                self._lines += block.lines()
                self._block = _Block(self._covers)
                return
        if not whole:
            self._block = _Block(self._covers)

    def _write(self, lines: list[dict[str, object]]) -> None:
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        data = (b"\n" if self._torn else b"") + text.encode()
        self._torn = True
        while data:
            data = data[os.write(self._file, data) :]
        self._torn = False


class _Block:
    """Samples of neighbouring steps, of `covers` steps each, and the one that has begun."""

    def __init__(self, covers: int, profiled: bool = False) -> None:
        self.profiled = profiled
        self._covers = covers
        self._first: int | None = None
        self._next = 0
        self._us: list[int] = []
        self._sum_ns = self._begun = self._timed = 0
        self._ended_at = self._sample_at = 0.0

    def continues(self, step: int, profiled: bool) -> bool:
        """Whether the step is the next one of this block, or the first of it."""
        return profiled == self.profiled and (self._first is None or step == self._next)

    def add(self, step: int, ns: int, at: float) -> None:
        if self._first is None:
            self._first = step
        self._next, self._ended_at = step + 1, at
        self._begun += 1
        self._sum_ns += ns
        self._timed += ns > 0
        if self._begun == self._covers:
            self._us.append(self._sample())
            self._sample_at = at

    def lines(self, whole: bool = False) -> list[dict[str, object]]:
        """Take the lines out of the block; with `whole`, without the sample that is not complete."""
        found: list[dict[str, object]] = []
        if self._us and self._first is not None:
            found.append(self._line(self._first, self._covers, self._us, self._sample_at))
            self._first, self._us = self._first + self._covers * len(self._us), []
        if self._begun and not whole and self._first is not None:
            begun = self._begun
            found.append(self._line(self._first, begun, [self._sample()], self._ended_at))
            self._first += begun
        return found

    def _line(self, first: int, covers: int, us: list[int], at: float) -> dict[str, object]:
        line: dict[str, object] = {"s": first, "us": us, "t": round(at, 3)}
        return {**line, **({"n": covers} if covers > 1 else {}), **({"p": 1} if self.profiled else {})}

    def _sample(self) -> int:
        """The mean of the timed steps of the begun sample in microseconds, 0 if none is."""
        us = max(round(self._sum_ns / self._timed / 1000), 1) if self._timed else 0
        self._sum_ns = self._begun = self._timed = 0
        return us


def is_written(path: str) -> bool | None:
    """Whether a process holds the lock on the log at `path`; None if the system does not say. Nothing is locked.

    On another host than the writer's, a file system without locks between hosts says that nobody does.
    """
    if sys.platform != "linux":
        return None
    try:
        with open(path, "rb") as file:
            asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            told = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return None
    return bool(told[0] != fcntl.F_UNLCK)


def _lock(file: int) -> None:
    """Lock the file for this process. The lock ends with it, and forked children do not have it."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _LOCKED_BY_ANOTHER:
            raise OSError(error.errno, "another process of this run writes the step times of this rank") from error
