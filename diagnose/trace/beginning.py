"""Read who wrote a trace from its beginning: the number and host of the process, its steps and the time."""

import datetime
import re
from dataclasses import dataclass
from pathlib import Path

from diagnose.trace.vocabulary import ANNOTATIONS, PYTHON, RUNTIME, STEP_MARKS

_OF_HOST = "|".join((*ANNOTATIONS, *PYTHON, *RUNTIME)).encode()
_EVENT = re.compile(
    rb'"cat"\s*:\s*"(?:%b)"[^{}]{0,4000}?"pid"\s*:\s*"?(\d{1,10})"?\s*,[^{}]{0,200}?"ts"\s*:\s*"?(\d{1,18}(?:\.\d{1,6})?)'
    % _OF_HOST,
    re.IGNORECASE,
)
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\b')
_HOST = re.compile(rb'"host_name"\s*:\s*"([^"\\]{1,200})"')
_STEP = re.compile(rb'"%b#(\d{1,12})"' % STEP_MARKS[0].encode())
_HEAD_BYTES = 1 << 16
_NAMED = re.compile(r"(?P<worker>.+?)[._-](?P<time>\d{13,19})\.(?:pt\.trace\.)?json")  # of tensorboard_trace_handler
_HOST_AND_PID = re.compile(r"(?P<host>.+)_(?P<pid>\d{1,10})")
_EARLIEST_NS, _LATEST_NS = 1_262_304_000 * 10**9, 4_102_444_800 * 10**9  # 2010 to 2100: else the clock is no date
_NS_FROM_DIGITS = {13: 10**6, 16: 10**3, 19: 1}


@dataclass(frozen=True)
class Beginning:
    """The process and the time of a trace, as its text and name show them.

    Attributes:
        pid: number of the process; None if it is unknown.
        host: "" if it is unknown.
        worker: the name that `tensorboard_trace_handler` gave the process's files; "" if another wrote the file.
        ns: time of the first event in nanoseconds since 1970; else that in the name; 0 if neither is a date.
        steps: numbers of the profiler's steps in the beginning.
        is_all: whether the beginning is the whole text.
    """

    pid: int | None = None
    host: str = ""
    worker: str = ""
    ns: int = 0
    steps: frozenset[int] = frozenset()
    is_all: bool = False


NOTHING_TOLD = Beginning()


def utc(ns: int) -> str:
    """A time in nanoseconds since 1970 as people read it, to the second; "" for 0."""
    return datetime.datetime.fromtimestamp(ns // 10**9, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if ns else ""


def beginning_of(path: Path, start: bytes, *, is_all: bool = False) -> Beginning:
    """The process and the time by the name of the trace and the beginning of its text, or all of it."""
    event, host = _EVENT.search(start), _HOST.search(start[:_HEAD_BYTES])
    pid = int(event[1]) if event else None
    named = _NAMED.match(path.name)
    process = _HOST_AND_PID.fullmatch(named["worker"]) if named else None
    if process and pid in (None, int(process["pid"])):
        pid = int(process["pid"])
    else:
        process = None  # a number in the user's own name for the worker
    return Beginning(
        pid,
        host[1].decode(errors="replace") if host else process["host"] if process else "",
        named["worker"] if named else "",
        (_dated(event, start) if event else 0) or (_stamped(named["time"]) if named else 0),
        frozenset(int(step) for step in _STEP.findall(start)),
        is_all,
    )


def _dated(event: re.Match[bytes], start: bytes) -> int:
    base = _BASE.search(start[:_HEAD_BYTES])
    return _date(round(float(event[2]) * 1000) + (int(base[1]) if base else 0))


def _stamped(digits: str) -> int:
    return _date(int(digits) * _NS_FROM_DIGITS.get(len(digits), 0))


def _date(ns: int) -> int:
    return ns if _EARLIEST_NS <= ns < _LATEST_NS else 0
