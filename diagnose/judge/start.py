"""The start of a job, until its first step: its parts, and what makes it shorter."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from diagnose.diagnosis import Goodput, Start
from diagnose.judge.goodput import COMPILING, STARTING, goodput_of
from diagnose.judge.start_advice import CHECKPOINT, DATA, IMPORTS, MAP, MODEL, SKIPPED, advice_of
from diagnose.probes import protocol
from diagnose.trace.record import CaptureRecord

GROUP, BARRIER, OTHER = "start of the process group", "waiting for other ranks", "other"
_PART_OF = {
    protocol.IMPORT_RANGE: IMPORTS,
    protocol.LOAD_MODEL_RANGE: MODEL,
    protocol.LOAD_DATA_RANGE: DATA,
    protocol.MAP_RANGE: MAP,
    protocol.CHECKPOINT_RANGE: CHECKPOINT,
    protocol.PROCESS_GROUP_RANGE: GROUP,
    protocol.BARRIER_RANGE: BARRIER,
}
_APART = (protocol.EVAL_RANGE, protocol.SAVE_RANGE, protocol.COMPILE_RANGE, protocol.OWN_RANGE)  # no part of the start
MATTERS = 0.01  # of the run


def with_start(goodput: Goodput | None, start: Start | None) -> Goodput | None:
    """The goodput with the start, which matters to a run that has ended by its share of that."""
    if goodput is None or start is None:
        return goodput
    share = (start.time_s + start.compiling_s) / goodput.wall_s
    return replace(goodput, start=replace(start, matters=not goodput.ended or share >= MATTERS))


def start_of(records: Iterable[CaptureRecord]) -> Start | None:
    """The start of the rank that worked longest before its first step; None if no record has it."""
    starts = [start for record in records if (start := _start_of_one(record)) is not None]
    longest = max(starts, key=lambda each: each.time_s - _waited(each), default=None)
    return replace(longest, of_ranks=len(starts)) if longest is not None else None


def _start_of_one(record: CaptureRecord) -> Start | None:
    goodput = goodput_of(record)
    if goodput is None:
        return None
    took = {part.what: part.time_s for part in goodput.parts}
    parts, compiling_s = _parts(record, took[STARTING]), took[COMPILING]
    return Start(
        rank=int(record.number("rank") or 0),
        of_ranks=1,
        time_s=took[STARTING],
        parts=parts,
        compiling_s=compiling_s,
        advice=advice_of(record, {**parts, COMPILING: compiling_s}, took[STARTING] + compiling_s),
        unknown="" if IMPORTS in parts else "imports are a part of the rest, as nothing timed them",
    )


def _parts(record: CaptureRecord, time_s: float) -> dict[str, float]:
    """The seconds of each part that took any, the longest first, and the rest."""
    ranges: Mapping[str, Any] = record.get("run_time.before.ranges_ns") or {}
    ns = {part: float(ranges.get(name) or 0.0) for name, part in _PART_OF.items()}
    skipped: Mapping[str, Any] = record.get("run_time.skipped.ranges_ns") or {}
    elsewhere = sum(float(skipped.get(name) or 0.0) for name in (*_PART_OF, *_APART))
    ns[SKIPPED] = max((record.number("run_time.skipped.ns") or 0.0) - elsewhere, 0.0)
    parts, left = {}, time_s
    for part, took in sorted(ns.items(), key=lambda each: -each[1]):
        if took > 0:
            parts[part] = min(took / 1e9, left)
            left -= parts[part]
    return {**parts, OTHER: left}


def _waited(start: Start) -> float:
    return start.parts.get(GROUP, 0.0) + start.parts.get(BARRIER, 0.0)
