"""How much of what a GPU did is in a trace, and why none of it, or not all, is."""

import re
from typing import Literal, NamedTuple

from diagnose.timeline.graph_captures import GraphCaptures
from diagnose.timeline.launches import LAUNCH_CALL, Launches
from diagnose.trace import Trace
from diagnose.trace.vocabulary import COPY_CALL, NO_OPERATOR, OF_WATCHING, OPS, RANGES, RUNTIME

GpuRecord = Literal[
    "recorded",
    "lost at the start",
    "lost at the end",
    "lost in between",
    "all lost",
    "cut off",
    "unknown device",
    "unused GPU",
    "not recorded",
    "no GPU",
    "nothing recorded",
]
UNSEEN: tuple[GpuRecord, ...] = ("all lost", "cut off", "unknown device")
"""The job ran on a device, and nothing is known of it."""

_IS_OWN_RANGE = re.compile(rf"(?!{NO_OPERATOR})").match
_FEW = 0.01  # of the launches: so few may have no activity by chance
_MOSTLY = 0.9  # of the lost ones


class Seen(NamedTuple):
    """Whether a trace has GPU activities, events of a device that is neither CUDA's nor ROCm's, a GPU in its list."""

    activities: bool
    on_unknown_device: bool
    listed: bool


def gpu_record_of(trace: Trace, launches: Launches, captures: GraphCaptures, seen: Seen) -> GpuRecord:
    """The case that a rank's trace is, by its kernel launches and by the graphs that it captures, whose launches do not
    run.
    """
    if seen.activities:
        return _loss(launches)
    if seen.on_unknown_device:
        return "unknown device"
    works = trace.named_in(re.compile(f"{LAUNCH_CALL}|{COPY_CALL}").match, *RUNTIME)
    if len(launches) or (works.any() and not captures.of_process):
        return "all lost"
    if trace.loss.truncated and seen.listed:
        return "cut off"
    if not (trace.rows_of(*OPS).any() or trace.named_in(_IS_OWN_RANGE, *RANGES).any()):
        return "nothing recorded"
    if trace.rows_of(*RUNTIME, *OF_WATCHING).any():
        return "unused GPU"
    return "not recorded" if seen.listed else "no GPU"


def _loss(launches: Launches) -> GpuRecord:
    lost = int(launches.lost.sum())
    if lost <= _FEW * len(launches):
        return "recorded"
    if int(launches.early.sum()) >= _MOSTLY * lost:
        return "lost at the start"
    return "lost at the end" if int(launches.cut.sum()) >= _MOSTLY * lost else "lost in between"
