"""The record that the probe writes next to a trace: settings, sizes and step times that the trace does not hold.

A record is decoded once, here: every value read from it has the type and range that `record_fields` gives it.
"""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.decoding import MOST_COUNT, OnLeftOut, encodable, finite
from diagnose.probes.protocol import RECORD as RECORD_FILE
from diagnose.probes.protocol import RUN_TIME as RUN_TIME_FILE
from diagnose.trace.record_fields import RECORD, RUN_TIME, UNREADABLE_RECORD

_LARGEST_BYTES = 16 << 20
_MOST_TOLD = 64
LIKE_STEPS = 1.05  # medians of two groups of steps that lie nearer are of the same steps
UNLIKE_STEPS = 1.2  # medians further apart are of other steps
_SETTLING = 5  # steps behind those that are timed as controls, in which a trace may still be written
_LEAST_LATER, _MOST_LATER = 10, 40
_PLAIN_PATH = re.compile(r"(?:[a-zA-Z_]\w{0,39}\.?){1,4}", re.ASCII)


@dataclass(frozen=True)
class CaptureRecord:
    """The content of `capture-rank{R}.json`, empty when there is none. Keys are read by dotted path.

    `lost` names what was left out because it was of the wrong type or out of range, as kinds of loss.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    lost: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.values)

    def get(self, path: str) -> Any:
        """The value at `path`, such as "model.attn_implementation"; None if any part is missing or null."""
        value: Any = self.values
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def text(self, path: str) -> str | None:
        """The text at `path`, None when it is no text."""
        value = self.get(path)
        return value if isinstance(value, str) else None

    def flag(self, path: str) -> bool | None:
        """The flag at `path`, None when it is no flag."""
        value = self.get(path)
        return value if isinstance(value, bool) else None

    def number(self, path: str) -> float | None:
        """The number at `path`, finite and at most 2**53 in size; None when it is no number."""
        return finite(self.get(path), -MOST_COUNT, MOST_COUNT)


def control_ns(record: CaptureRecord) -> tuple[list[float], list[float]]:
    """Times of the steps that the capture took without the profiler, before and after its window; nanoseconds.

    Those after it are none if later steps are like those before: then the end of the recording made them longer, which
    passed beside them, or shorter, as batches came in meanwhile that the steps would have waited for.
    """
    before, after = (
        [ns for ns in record.get(f"steps.{key}") or () if ns is not None]
        for key in ("control_before_ns", "control_after_ns")
    )
    later = _later_ns(record, len(after))
    if before and after and later and _is_apart(after, before, later):
        return before, []
    return before, after


def _is_apart(ns: Sequence[float], *others: Sequence[float]) -> bool:
    """Whether the median is far above, or far below, that of each of the others."""
    own, medians = np.median(ns), [np.median(other) for other in others]
    return bool(own > UNLIKE_STEPS * max(medians) or UNLIKE_STEPS * own < min(medians))


def _later_ns(record: CaptureRecord, controls: int) -> list[float]:
    """Host times of the steps that follow the controls behind the window, a few left out; none if they are few."""
    profiled, ns = (record.get(f"every_step.{name}") or () for name in ("profiled", "ns"))
    if not any(profiled) or len(profiled) != len(ns):
        return []
    first = len(profiled) - profiled[::-1].index(True) + controls + _SETTLING
    later = [each for each in ns[first : first + _MOST_LATER] if each is not None]
    return later if len(later) >= _LEAST_LATER else []


def unprofiled_ns(record: CaptureRecord) -> list[float]:
    """Times of the steps that the capture took without the profiler, in the order of the run; nanoseconds.

    If every step of one side of the window takes longer than all of the other side, the longer ones are left out: what
    the start of the job or the end of the recording costs beside a step only lengthens it.
    """
    before, after = control_ns(record)
    if min(len(before), len(after)) < 2:
        return before + after
    shorter, longer = sorted((before, after), key=np.median)
    apart = min(longer) >= max(shorter) and np.median(longer) > LIKE_STEPS * np.median(shorter)
    return shorter if apart else before + after


def profiler_factor(record: CaptureRecord) -> float | None:
    """Profiled over unprofiled step time, medians; the recorded factor if the record has no times, None without it."""
    profiled = [ns for ns in record.get("steps.active_ns") or () if ns is not None]
    unprofiled = unprofiled_ns(record)
    if profiled and unprofiled:
        return float(np.median(profiled) / max(np.median(unprofiled), 1.0))
    return record.number("overhead_factor")


def record_beside(trace: Path, rank: int) -> CaptureRecord:
    """The record of the rank in the trace's folder, with the time of the whole run if that is known.

    One that cannot be read is as good as none: the trace decides.
    """
    try:
        found = _read(trace.parent / RECORD_FILE.format(rank))
    except (OSError, ValueError, RecursionError):
        return CaptureRecord(lost=(UNREADABLE_RECORD,))
    if found is None or not (record := decoded(found)):
        return CaptureRecord()
    return with_run_time(record, trace.parent, rank)


def with_run_time(record: CaptureRecord, folder: Path, rank: int) -> CaptureRecord:
    """The record with the time of the whole run, which the rank wrote into the folder at its end; unchanged if none."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = RUN_TIME(_read(folder / RUN_TIME_FILE.format(rank)), "run_time", lambda _: None)
        if found is not None:
            return CaptureRecord({**record.values, "run_time": found}, record.lost)
    return record


def _read(path: Path) -> Any:
    """The content of the JSON file; None if there is none.

    Raises:
        ValueError: it is no JSON, or too large.
        OSError: it cannot be read.
    """
    if not path.is_file():
        return None
    if path.stat().st_size > _LARGEST_BYTES:
        raise ValueError("the file is too large")
    return json.loads(path.read_text(encoding="utf-8"))


def decoded(outside: object) -> CaptureRecord:
    """The record that the parsed file holds."""
    lost: dict[str, None] = {}
    values = RECORD(outside, "", _booked_in(lost))
    if values is None:
        return CaptureRecord(lost=(UNREADABLE_RECORD,))
    return CaptureRecord(values, tuple(lost)[:_MOST_TOLD])


def _booked_in(lost: dict[str, None]) -> OnLeftOut:
    def told(path: str) -> None:
        known = _PLAIN_PATH.match(encodable(path))
        lost[f"record-value {known[0].strip('.')}" if known else "record-value"] = None

    return told


def timed_steps(record: CaptureRecord, by_events_alone: bool = False) -> tuple[Ints, Floats]:
    """Numbers and nanoseconds of the steps without the profiler, before and after the window, in order.

    Steps while waiting for the window are timed by the host's clock, even if those next to the window are timed by
    events of the device; `by_events_alone` leaves them out.
    """
    waiting, control, warmup, active, after = (
        _times(record, name) for name in ("waiting", "control_before", "warmup", "active", "control_after")
    )
    first = record.get("steps.first_active_step")
    before = np.concatenate((waiting, control))
    start = len(before) + len(warmup) + 1 if first is None else first
    begin = start - len(warmup) - len(before)
    end = start + len(active) + (1 if len(after) else 0)  # one step passes between recording and control
    number = np.concatenate((np.arange(begin, begin + len(before)), np.arange(end, end + len(after))))
    ns = np.concatenate((before, after))
    good = np.isfinite(ns) & (ns > 1)
    if by_events_alone:
        good[: len(waiting)] = False
    return number[good].astype(np.int64), ns[good]


def core_times(record: CaptureRecord, numbers: Sequence[int]) -> Floats:
    """Nanoseconds that the threads of each of these steps were on a core, and were ready without one, shape (steps, 2).

    NaN for a step that the capture did not time so.
    """
    first = record.get("steps.first_active_step")
    cpu, waited = (_times(record, f"active_{name}") for name in ("cpu", "core_wait"))
    times = np.full((len(numbers), 2), np.nan)
    if first is None or len(cpu) != len(waited):
        return times
    at = np.array(numbers, np.int64) - first
    known = (at >= 0) & (at < len(cpu))
    times[known] = np.stack((cpu, waited), axis=1)[at[known]]
    return times


def _times(record: CaptureRecord, name: str) -> Floats:
    listed = record.get(f"steps.{name}_ns") or ()
    return np.array([np.nan if ns is None else ns for ns in listed], np.float64)
