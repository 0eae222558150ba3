"""The step log of an armed run: the times of all its steps, what opened its windows, and the memory that it took.

A line that cannot be read is left out: the end of a log whose process was killed is one. The writer is
`probes/timing/step_log`.
"""

import json
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.decoding import MOST_COUNT, MOST_RANKS, encodable, finite
from diagnose.errors import UserError
from diagnose.probes.protocol import STEP_LOG, rank_in
from diagnose.series.columns import LogColumn
from diagnose.series.growth import Held, container_of
from diagnose.series.log_events import event
from diagnose.series.machine.gpu_changes import GpuReading, gpu_reading_of
from diagnose.series.machine.readings import MOST_READINGS, MachineReading, MachineReadings, columns, reading_of
from diagnose.series.places import step_logs
from diagnose.series.steps_log import MOST_ROWS, LogTable
from diagnose.series.tracks import LogEvent
from diagnose.trace.source import opened

_LARGEST_BYTES = 512 << 20
_MOST_TOLD = 10_000
_LONGEST_WHY = 300
_MOST_CONTAINERS = 16
_OF_HELD = ("held", "growing", "limits")
_COLUMNS = {
    "step": LogColumn(0, "step", "step"),
    "duration": LogColumn(1, "step time", "duration", "us"),
    "clock": LogColumn(2, "time", "clock", "s"),
}


class TimingLog(msgspec.Struct):
    """The log of one rank.

    Attributes:
        rank: the rank in its file's name.
        host: host of the last process that wrote it.
        world_size: ranks of the job.
        begins: number of loops that began, resumed ones included.
        blocks: blocks of steps without the profiler: the first step, the steps of a sample, their microseconds (0:
            unknown), and the end of the last one, in seconds since 1970.
        told: windows and their outcome, in order; "loop" counts the loops that have begun.
        memory: "rss" and "device" in bytes, by step.
        held: what the process held, of each loop.
        goodput: nanoseconds of steps without what they wait for, and of the process until then, as last read.
        readings: readings of the machine, in the order of the lines.
        of_gpu: links and errors of the GPU, likewise.
        why_no_gpu: why there are none of a GPU, "" if there are.
        why_no_readings: why there are none of the machine, or no more; "" if the log gives no reason.
        unread: number of lines that could not be read.
        ended: whether the last loop ended by itself and logged its end.
        why_ended: the reason that the log gives for that end, "" without one.
        step: the steps that the job has done in the last loop, those before it included.
        total: the steps after which the last loop ends, None if only its end shows.
    """

    rank: int
    host: str = ""
    world_size: int = 1
    begins: int = 0
    blocks: list[tuple[int, int, Ints, float]] = msgspec.field(default_factory=list)
    told: list[dict[str, Any]] = msgspec.field(default_factory=list)
    memory: dict[str, list[tuple[int, int]]] = msgspec.field(default_factory=dict)
    held: list[Held] = msgspec.field(default_factory=list)
    goodput: tuple[int, int] | None = None
    readings: list[MachineReading] = msgspec.field(default_factory=list)
    of_gpu: list[GpuReading] = msgspec.field(default_factory=list)
    why_no_gpu: str = ""
    why_no_readings: str = ""
    unread: int = 0
    ended: bool = False
    why_ended: str = ""
    step: int = 0
    total: int | None = None
    restarts: list[int] = msgspec.field(default_factory=list)
    windows_at: list[int] = msgspec.field(default_factory=list)

    def table(self) -> LogTable:
        """The samples as the rows of a log, all of equally many steps; `events` between them."""
        covers = max((n for _, n, _, _ in self.blocks), default=1)
        rows = [_rows(block, covers) for block in self.blocks]
        table = LogTable(dict(_COLUMNS), dated=True)
        for name, at in (("step", 0), ("duration", 1), ("clock", 2)):
            whole = np.concatenate([each[at] for each in rows]) if rows else np.zeros(0)
            table.values[name] = array("d", whole[:MOST_ROWS].tolist())
        before = np.cumsum([0, *(len(each[0]) for each in rows)])
        table.events = [*self._events(before, self.restarts, "restart", "the job began again")]
        table.events += self._events(before, self.windows_at, "profiler", "a window of diagnose")
        table.events.sort(key=lambda one: one.row)
        return table

    def longest_held(self) -> Held:
        """The readings of the longest loop: another one may be another process."""
        longest = max(self.held, key=lambda one: len(one.readings), default=Held())
        return msgspec.structs.replace(longest, rank=self.rank, host=self.host)

    def machine(self) -> MachineReadings:
        """The readings of the machine in the order of steps."""
        return columns(self.rank, self.readings, self.why_no_gpu, self.of_gpu, self.why_no_readings)

    def _events(self, before: Ints, blocks: list[int], kind: str, words: str) -> Iterator[LogEvent]:
        for block in blocks:
            yield event(kind, words, int(before[min(block, len(before) - 1)]))


def all_ended(folder: Path) -> bool:
    """Whether every log that is there ends by itself."""
    return all(read_timing_log(path).ended for path in step_logs(folder))


def read_timing_log(path: Path) -> TimingLog:
    """Read the log of a rank.

    Raises:
        UserError: the file cannot be read, or is no step log.
    """
    log = TimingLog(rank_in(path.name, STEP_LOG) or 0)
    try:
        with opened(path, "the step log") as file:
            text = file.read(_LARGEST_BYTES)
    except OSError as error:
        raise UserError("cannot read the step log", where=path, why=error.strerror or str(error)) from error
    for line in text.split(b"\n"):
        if line:
            _take(log, _object(line))
    if not log.begins:
        raise UserError("no step log of an armed run", where=path, why="no loop begins in it")
    return log


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _take(log: TimingLog, line: dict[str, Any] | None) -> None:
    if line is None:
        log.unread += 1
    elif "us" in line:
        _take_block(log, line)
    elif "gauges" in line:
        _take_reading(log, line)
    elif log.held and line.keys() & set(_OF_HELD):
        _take_held(log, log.held[-1], line)
    elif "armed" in line:
        log.begins += 1
        log.ended, log.why_ended = False, ""
        log.step, log.total = _whole(line.get("done"), 0) or 0, _whole(line.get("total"), 1)
        log.held.append(Held())
        log.why_no_gpu = ""  # this loop may compute on one
        log.host = encodable(str(line.get("host", "")))[:200]
        log.world_size = _whole(line.get("world_size"), 1, MOST_RANKS) or log.world_size
        if log.begins > 1:
            log.restarts.append(len(log.blocks))
    elif line.get("what") == "end":
        log.ended, log.why_ended = True, _words(line.get("why", ""))
    elif line.get("what") == "no_readings":
        log.why_no_readings = _words(line.get("why", ""))
    elif isinstance(line.get("what"), str) and len(log.told) < _MOST_TOLD:
        log.told.append({**_plain(line), "loop": log.begins})
        if line["what"] == "window":
            log.windows_at.append(len(log.blocks))
            if log.held and type(line.get("first")) is int:
                log.held[-1].windows.append(line["first"])


def _take_block(log: TimingLog, line: Mapping[str, Any]) -> None:
    first, covers = _whole(line.get("s"), 0), _whole(line.get("n", 1), 1)
    at, us = finite(line.get("t"), 0, 1e11), line["us"]
    sound = isinstance(us, list) and us and all(type(each) is int and 0 <= each < MOST_COUNT for each in us)
    if first is None or covers is None or at is None or not sound:
        log.unread += 1
        return
    last = first + covers * len(us) - 1
    log.step = max(log.step, last)
    _take_memory(log, last, line)
    if not line.get("p"):
        log.blocks.append((first, covers, np.array(us, np.int64), at))


def _take_memory(log: TimingLog, step: int, told: Mapping[str, Any]) -> None:
    """Take the memory out of a reading; logs of earlier versions have it in their blocks."""
    for kind in ("rss", "device"):
        held = _whole(told.get(kind), 0, _LARGEST_BYTES << 30)
        if held is not None:
            log.memory.setdefault(kind, []).append((step, held))


def _take_held(log: TimingLog, held: Held, line: Mapping[str, Any]) -> None:
    step, told = _whole(line.get("step"), 0), next(line[name] for name in _OF_HELD if name in line)
    if step is None or not isinstance(told, dict | list):
        log.unread += 1
    elif isinstance(told, list):
        held.growing = tuple(one for each in told[:_MOST_CONTAINERS] if (one := container_of(each)) is not None)
    else:
        read = {name: count for name, count in told.items() if _whole(count, 0, _LARGEST_BYTES << 30) is not None}
        log.step = max(log.step, step)
        log.goodput = _spent(line.get("goodput")) or log.goodput
        if "limits" in line:
            held.limits = read
        elif len(held.readings) < MOST_READINGS:
            held.readings.append((step, read))
            _take_memory(log, step, read)


def _spent(told: object) -> tuple[int, int] | None:
    """A part of a time and that time, in nanoseconds."""
    if not isinstance(told, list) or len(told) != 2:
        return None
    part, whole = (_whole(each, 0, _LARGEST_BYTES << 30) for each in told)
    return None if part is None or not whole else (min(part, whole), whole)


def _take_reading(log: TimingLog, line: Mapping[str, Any]) -> None:
    reading = reading_of(line)
    if reading is None:
        log.unread += 1
        return
    log.step = max(log.step, reading.step)
    if len(log.readings) < MOST_READINGS:
        log.readings.append(reading)
        of_gpu = gpu_reading_of(log.begins, reading.step, line)
        log.of_gpu += [of_gpu] if of_gpu is not None else []
    if isinstance(line.get("no_gpu"), str):
        log.why_no_gpu = _words(line["no_gpu"])


def _rows(block: tuple[int, int, Ints, float], covers: int) -> tuple[Floats, Floats, Floats]:
    """The last step, the mean microseconds and the clock of each sample of `covers` steps; untimed ones left out."""
    first, own, us, at = block
    took = us * float(own)
    clock = at - (took.sum() - np.cumsum(took)) / 1e6
    times = max(covers // own, 1)
    whole = len(us) // times * times
    if whole < len(us) and times > 1:  # the rest is less than a sample of the others
        us, took, clock = us[:whole], took[:whole], clock[:whole]
    timed = (us > 0).reshape(-1, times).sum(axis=1)
    mean = us.reshape(-1, times).sum(axis=1) / np.maximum(timed, 1)
    step = first - 1 + own * times * np.arange(1, len(mean) + 1)
    known = timed > 0
    return step[known].astype(np.float64), mean[known], clock.reshape(-1, times)[:, -1][known]


def _plain(line: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in line.items():
        if isinstance(value, str):
            kept[key] = encodable(value)[:_LONGEST_WHY]
        elif type(value) is int and abs(value) < MOST_COUNT:
            kept[key] = value
    return kept


def _words(value: object) -> str:
    return encodable(str(value))[:_LONGEST_WHY]


def _whole(value: object, low: int, high: int = MOST_COUNT) -> int | None:
    return value if type(value) is int and low <= value <= high else None
