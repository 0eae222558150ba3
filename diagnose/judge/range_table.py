"""The named ranges of the counted steps: `record_function` of the job, of torch and of the capture, and NVTX."""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, shortly_numbered
from diagnose.attribution.causes import IDLE
from diagnose.diagnosis.ranges import OpenedBy, RangeRow
from diagnose.judge.kernel_table import LONGEST_NAME
from diagnose.metrics import Measured
from diagnose.timeline import grouped
from diagnose.trace.vocabulary import COLLECTIVE_RANGES, RANGES, STEP_MARKS, TORCH_RANGES

RANGES_KEPT = 50
_OF_CAPTURE = "diagnose."
_IS_LEFT_OUT = re.compile("|".join((*map(re.escape, STEP_MARKS), COLLECTIVE_RANGES)))
_IS_TORCH = re.compile(TORCH_RANGES)


def range_rows(measured: Measured) -> tuple[RangeRow, ...]:
    """The ranges by name, longest first; those behind the first 50 share the last row. Marks of steps, and the
    collectives, which have rows of their own, are left out.
    """
    trace, steps = measured.timeline.trace, measured.timeline.steps.host
    rows = np.flatnonzero(trace.named_in(lambda name: not _IS_LEFT_OUT.match(name), *RANGES))
    rows = rows[iv.coverage(steps, trace.ts[rows], trace.ends(rows)) > 0] if len(steps) else rows[:0]
    if not len(rows) or measured.job.distortion is not None:
        return ()
    names, group = shortly_numbered(trace.name[rows])
    order = np.argsort(-np.bincount(group, weights=trace.dur[rows]), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.minimum(np.arange(len(order)), RANGES_KEPT)
    named = [_Named(trace.names[names[at]], 1) for at in order[:RANGES_KEPT]]
    more = len(order) - len(named)
    named += [_Named("", more)] if more else []
    listed = _listed(measured, named, [rows[of_name] for of_name in grouped(place[group])])
    return tuple(sorted(listed, key=lambda row: (not row.name, -row.ns, row.name)))


class _Named(msgspec.Struct, frozen=True):
    """The name of a row, "" for several names together."""

    name: str
    names: int


def _listed(measured: Measured, named: Sequence[_Named], rows: Sequence[Ints]) -> Iterator[RangeRow]:
    """A row for each name and the rows of the trace that it has."""
    timeline, trace = measured.timeline, measured.timeline.trace
    host, steps = timeline.steps.host, max(timeline.steps.count, 1)
    open_ = [iv.intervals(trace.ts[own], trace.ends(own)) for own in rows]
    inside, length = _covered(host, open_), max(iv.total(host), 1)
    on_device = _on_device(measured, open_)
    for each, own, ns, (gpu_ns, idle_ns) in zip(named, rows, inside, on_device, strict=True):
        yield RangeRow(
            name=each.name if len(each.name) <= LONGEST_NAME else each.name[:LONGEST_NAME] + "...",
            names=each.names,
            by=_opened_by(each.name),
            count=int(iv.holds(host, trace.ts[own]).sum()) / steps,
            ns=ns // steps,
            share=min(ns / length, 1.0),
            gpu_ns=gpu_ns if gpu_ns is None else gpu_ns // steps,
            idle_ns=idle_ns if idle_ns is None else idle_ns // steps,
            idle_share=None if idle_ns is None else min(measured.attribution.share(idle_ns), 1.0),
        )


def _on_device(measured: Measured, open_: Sequence[iv.Intervals]) -> Iterable[tuple[int | None, int | None]]:
    """For each set of instants, the time of activities launched then and of the device's idling; None without a GPU."""
    if not measured.timeline.has_gpu:
        return [(None, None)] * len(open_)
    return zip(_launched_ns(measured, open_), _covered(measured.attribution.pieces(*IDLE), open_), strict=True)


def _launched_ns(measured: Measured, open_: Sequence[iv.Intervals]) -> Iterator[int]:
    gpu, counted = measured.timeline.gpu, np.flatnonzero(measured.in_steps)
    order = counted[np.argsort(gpu.launch_start[counted], kind="stable")]
    launched, before = gpu.launch_start[order], np.zeros(len(order) + 1, np.int64)
    np.cumsum((gpu.end - gpu.start)[order], out=before[1:])
    return (int(np.diff(before[np.searchsorted(launched, instants)]).sum()) for instants in open_)


def _covered(a: iv.Intervals, sets: Sequence[iv.Intervals]) -> list[int]:
    """Nanoseconds that the set has in common with each of the others."""
    return [int(ns.sum()) for ns in iv.coverages(a, [each[:, 0] for each in sets], [each[:, 1] for each in sets])]


def _opened_by(name: str) -> OpenedBy:
    if name.startswith(_OF_CAPTURE):
        return "diagnose"
    return "torch" if _IS_TORCH.match(name) else "code"
