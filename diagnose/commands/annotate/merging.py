"""Traces of several ranks, or a damaged one, written anew from the loaded columns.

Processes are numbered as tools that merge traces do, `rank * 100_000_000 + pid`. Arguments that the loader does not
keep are not in the new file; arrows from launches to kernels are drawn again from their correlation.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from diagnose.commands.annotate.tracks import Event, micros
from diagnose.diagnosis.postmortem import Clock
from diagnose.timeline import NOT_LAUNCHED, Timeline
from diagnose.trace.columns import ABSENT

PER_RANK = 100_000_000


def shift_of(timeline: Timeline, first: Timeline, clocks: dict[int, Clock]) -> int:
    """Nanoseconds to add to a rank's times for the clock of the first rank: as aligned, else by the wall clocks."""
    clock = clocks.get(timeline.rank)
    aligned = clock.offset_ns if clock is not None and clock.offset_ns is not None else 0
    return timeline.trace.base_ns - first.trace.base_ns + aligned


def events_of(timeline: Timeline, shift: int) -> Iterator[Event]:
    """The rank's events with shifted times, named processes, and launches linked to the activities they launched."""
    trace, base = timeline.trace, timeline.rank * PER_RANK
    columns = (trace.ts, trace.dur, trace.name, trace.cat, trace.pid, trace.tid)
    for row, values in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        ts, dur, name, cat, pid, tid = values
        event = {"ph": "X", "cat": trace.cats[cat], "name": trace.names[name], "pid": base + max(pid, 0), "tid": tid}
        yield event | {"ts": micros(ts + shift), "dur": micros(dur), "args": _args(timeline, row)}
    for pid in np.unique(trace.pid[trace.pid >= 0]).tolist():
        name = f"rank {timeline.rank}, process {pid}"
        yield {"ph": "M", "name": "process_name", "pid": base + pid, "tid": 0, "ts": 0, "args": {"name": name}}
    yield from _arrows(timeline, shift, base)


def _args(timeline: Timeline, row: int) -> dict[str, Any]:
    trace = timeline.trace
    numbers = (
        ("stream", trace.stream), ("device", trace.device), ("correlation", trace.correlation),
        ("External id", trace.external_id), ("bytes", trace.bytes),
    )  # fmt: skip
    return {key: int(column[row]) for key, column in numbers if column[row] != ABSENT}


def _arrows(timeline: Timeline, shift: int, base: int) -> Iterator[Event]:
    gpu, trace = timeline.gpu, timeline.trace
    for row, launch in zip(gpu.row.tolist(), gpu.launch.tolist(), strict=True):
        if launch == NOT_LAUNCHED:
            continue
        for phase, at in (("s", launch), ("f", row)):
            where = {"pid": base + max(int(trace.pid[at]), 0), "tid": int(trace.tid[at])}
            tie = {"cat": "ac2g", "name": "ac2g", "id": base + row, "ts": micros(int(trace.ts[at]) + shift)}
            yield {"ph": phase, **tie, **where} | ({"bp": "e"} if phase == "f" else {})
