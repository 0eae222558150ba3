"""Parts of the wall time of a process, by the ranges in which its training thread was."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diagnose.diagnosis import Goodput
from diagnose.probes import protocol
from diagnose.trace.light_steps import every_step
from diagnose.trace.record import CaptureRecord, record_beside, with_run_time

PRODUCTIVE, STARTING, COMPILING, IDLE = "productive", "starting", "compiling", "idle"
PARTS = (PRODUCTIVE, "waiting for data", "evaluation", "saving", "logging", COMPILING, STARTING, "capturing", IDLE)
_BEFORE = ("evaluation", "saving", COMPILING, "capturing")  # what is no start of the job before its first step


def goodput_of(record: CaptureRecord, usual_step_s: float | None = None) -> Goodput | None:
    """The parts of the wall time of the recorded process; None if its record does not have them.

    What lies in no range is the start of the job before its first step, its steps from there on, and idle after the
    last one. A first step whose beginning was not seen is taken to be as long as the others, without what it compiles:
    `usual_step_s`, or the median of the record.
    """
    wall_ns = record.number("run_time.wall_ns")
    spans = {name: record.get(f"run_time.{name}") for name in ("before", "in_steps", "after")}
    if not wall_ns or None in spans.values():
        return None
    ns = dict.fromkeys(PARTS, 0.0)
    for span, rest in zip(spans.values(), (STARTING, PRODUCTIVE, IDLE), strict=True):
        _add(ns, span, rest)
    if not record.flag("run_time.first_seen"):
        usual_ns = _usual_step_ns(record) if usual_step_s is None else usual_step_s * 1e9
        first_ns = min(usual_ns, ns[STARTING])
        ns[STARTING] -= first_ns
        ns[PRODUCTIVE] += first_ns
    ns[IDLE] += max(wall_ns - sum(ns.values()), 0.0)
    return Goodput.of(
        wall_ns / 1e9, {name: each / 1e9 for name, each in ns.items()}, record.flag("run_time.ended") is True
    )


def goodput_beside(folder: Path, rank: int) -> Goodput | None:
    """The same of the rank whose files are in the folder."""
    return goodput_of(record_beside(folder / protocol.TRACE.format(rank), rank))


def goodput_of_armed(folder: Path, rank: int, usual_step_s: float | None) -> Goodput | None:
    """The same of a rank of the armed run in the folder, whose usual step takes so long; its windows do not matter."""
    return goodput_of(with_run_time(CaptureRecord(), folder, rank), usual_step_s or 0.0)


def _add(ns: dict[str, float], span: Mapping[str, Any], rest: str) -> None:
    """Add the parts of one span, whose time in no range is `rest`."""
    left = float(span["ns"] or 0.0)
    for name, took in (span["ranges_ns"] or {}).items():
        part = protocol.PART_OF_RANGE.get(name, rest)
        if took and part != rest and (rest != STARTING or part in _BEFORE):
            ns[part] += took
            left -= took
    ns[rest] += max(left, 0.0)


def _usual_step_ns(record: CaptureRecord) -> float:
    steps = every_step(record)
    return float(np.median(steps.ns[~steps.profiled])) if steps is not None and not steps.profiled.all() else 0.0
