"""The steps without the profiler: their times, and the ranges of the host in them."""

import re
from collections.abc import Mapping

import msgspec
import numpy as np

from diagnose.arrays import Floats, Ints, Mask
from diagnose.probes import protocol
from diagnose.trace.record import CaptureRecord
from diagnose.trace.vocabulary import DATA_WAIT, LOGGING, OPTIMIZER_STEP


class EveryStep(msgspec.Struct, frozen=True):
    """The steps that the capture timed, by the host's clock, in the order of the run.

    Attributes:
        number: of each step, as the job counts.
        profiled: whether the profiler was on in it.
        ns, gc_ns: the time of each step, and of Python's garbage collection in it.
        ranges_ns: the time of each step in each range of the training thread.
    """

    number: Ints
    profiled: Mask
    ns: Floats
    gc_ns: Floats
    ranges_ns: Mapping[str, Floats]


def every_step(record: CaptureRecord) -> EveryStep | None:
    """All steps that the record has with their ranges; None if it has none, or a list of another length."""
    ranges = record.get("every_step.ranges_ns") or {}
    told = {name: record.get(f"every_step.{name}") or () for name in ("number", "profiled", "ns", "gc_ns")} | ranges
    if any(not column or len(column) != len(told["number"]) or None in column for column in told.values()):
        return None
    return EveryStep(
        number=np.array(told["number"], np.int64),
        profiled=np.array(told["profiled"], np.bool_),
        ns=np.array(told["ns"], np.float64),
        gc_ns=np.array(told["gc_ns"], np.float64),
        ranges_ns={name: np.array(told[name], np.float64) for name in ranges},
    )


def ran_ahead_ns(record: CaptureRecord) -> float | None:
    """Median time on the host of the steps that are much shorter than most; None if there are few.

    Beside a busy device the host's step is as long as the device's once its queue of launches is full. Before, as at
    the begin and behind the window, it is what the host itself takes.
    """
    every = every_step(record)
    ns = every.ns[~every.profiled] if every is not None else np.zeros(0)
    short = ns[ns < _AHEAD * np.median(ns)] if len(ns) else ns
    return float(np.median(short)) if len(short) >= _LEAST_AHEAD else None


def grown(every: EveryStep, rows: Ints) -> tuple[str, float]:
    """The range that grew most in these steps beyond the median of all, and by how much; ("", 0) if none explains them.

    The range of garbage collection is called GC.
    """
    columns = {name: ns for name, ns in every.ranges_ns.items() if name in EXPLAINS} | {GC: every.gc_ns}
    more = {name: float(np.median(ns[rows]) - np.median(ns)) for name, ns in columns.items()}
    most = max(more, key=lambda name: more[name])
    explains = more[most] > _TELLS * float(np.median(every.ns[rows]) - np.median(every.ns)) > 0
    return (most, more[most]) if explains else ("", 0.0)


GC = "gc"
EXPLAINS = (
    protocol.FIRST_BATCH_RANGE,
    protocol.DATA_WAIT_RANGE,
    protocol.EVAL_RANGE,
    protocol.SAVE_RANGE,
    protocol.LOG_RANGE,
    protocol.COMPILE_RANGE,
    protocol.OPTIMIZER_RANGE,
)
_TELLS = 0.5  # of what a step takes beyond the others: a smaller part does not explain it
_AHEAD = 0.8  # of the median step
_LEAST_AHEAD = 4
_LATER = 1.05  # times the step: more cannot be of the same steps
CAUSES_IN_RANGES = {  # causes in the breakdown of a host step that a range stands for, jointly if there are several
    ("data-wait",): DATA_WAIT,
    ("logging",): LOGGING,
    ("operator-optimizer", "optimizer-host"): OPTIMIZER_STEP,
}


def host_step_ns(record: CaptureRecord) -> float | None:
    """Mean time of such a step on the host; None if none was timed by range."""
    times = _times(record)
    return sum(times) / len(times) if times else None


def range_shares(record: CaptureRecord) -> Mapping[str, float]:
    """Share of the host's step in each range, without the ranges within it; what is missing to 1 lies in none.

    The last look at the clock of the ranges comes after that of the step, by microseconds.
    """
    times, ranges = _times(record), record.get("steps.unprofiled_ranges_ns")
    if not times or not isinstance(ranges, Mapping):
        return {}
    in_range = {name: sum(ns for ns in each if ns is not None) for name, each in ranges.items() if name}
    spent, total = sum(in_range.values()), sum(times)
    if spent > _LATER * total:
        return {}
    return {name: ns / max(total, spent) for name, ns in in_range.items()}


def shares_in_ranges(record: CaptureRecord) -> Mapping[tuple[str, ...], float]:
    """Share of the host's step in the ranges that stand for causes of the breakdown, for each cause with such a
    range.
    """
    shares = range_shares(record)
    told = {
        causes: [name for name in shares if re.match(pattern, name)] for causes, pattern in CAUSES_IN_RANGES.items()
    }
    return {causes: sum(shares[name] for name in names) for causes, names in told.items() if names}


def _times(record: CaptureRecord) -> list[float]:
    times = record.get("steps.unprofiled_host_ns") or ()
    return [] if None in times or not sum(times) else list(times)
