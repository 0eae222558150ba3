"""The roofline: each kernel's distance from its device's best, given the work and traffic of its operator.

The work of an operator is counted once (`flop_formulas`, `traffic`) and shared over its kernels by their time. Causal
attention counts the half of the scores that it needs. Auxiliary kernels of a matrix operator (layout copies, fills) get
none of it: all their time is above the roof. Precision is that of the operator's longest matrix kernel, by its name; if
the name does not show it, that of the operator's half-precision inputs, and float on tensor cores is TF32.

A kernel's lower bound is max(FLOPs / peak, bytes / memory bandwidth), with the peak of the precision that ran; bytes
are a lower bound of the traffic, so intensity is an upper bound, and so is every "compute". Time is the breakdown's:
the part that no kernel that started earlier covers, inside the counted steps.

Waves are not judged: the number of blocks that an SM holds at once is not recorded.
"""

from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose import intervals as iv
from diagnose.arrays import Coded, Floats, Ints, Labels, Mask
from diagnose.formulas import share
from diagnose.hardware import Device
from diagnose.roofline import owners
from diagnose.roofline.costs import UNSETTLED, KernelCosts, costs_of
from diagnose.roofline.owners import distinct
from diagnose.roofline.rows import KernelWork, MatrixWork, RooflineRow, matrix_work, row_of, rows_of
from diagnose.timeline import Timeline, grouped
from diagnose.trace.arguments import tensor_sizes
from diagnose.trace.spill import narrowest

NEAR_ROOF = 0.5  # below it, more of the time is spent on something else than the roof explains
SHORT_NS = 10_000
CLASSES = ("", "compute", "memory")
BOUNDS = ("compute", "latency", "memory", "under-filled", "unknown")


class Roofline(msgspec.Struct, frozen=True, dict=True):
    """The roofline of one rank, aligned with `timeline.gpu`, and summed over the counted steps.

    Attributes:
        operator: row of the innermost recorded operator that launched the activity, -1 if not known.
        class_: "compute" if FLOPs / peak takes at least as long as bytes / bandwidth, else "memory"; "" if the device
            or the cost is unknown, and for auxiliary kernels, collectives and copies.
        bound: "compute" or "memory" if the lower bound is at least half of the kernel's time; else "latency" under 10
            us, "under-filled" with less than one block per SM, otherwise "unknown".
        sized: kernels whose cost is known.
        sized_share: share of kernel time (collectives and copies left out) whose operator has a known cost.
        work: the kernels with their costs and judgements; the tables are computed from it on demand, since most ranks
            of a large job need none.
        device: the device whose peaks they are compared with.
    """

    operator: Ints
    class_: Labels
    bound: Labels
    sized: Mask
    sized_share: float
    work: KernelWork
    device: Device

    @property
    def ns(self) -> Ints:
        """Time of a kernel that no earlier kernel covers, in the counted steps; 0 for collectives and copies."""
        return _over_activities(self.work.timeline, self.work.costs.at, self.work.ns, 0)

    @property
    def above_roof_ns(self) -> Floats:
        """Time of each activity above its lower bound, NaN if unknown."""
        return _over_activities(self.work.timeline, self.work.costs.at, self.work.above_ns, np.nan)

    @cached_property
    def rows(self) -> tuple[RooflineRow, ...]:
        """Rows by family, direction and precision; longest first."""
        return rows_of(self.work, self.device)

    @cached_property
    def matrix(self) -> tuple[MatrixWork, ...]:
        """Matrix kernels by precision."""
        return matrix_work(self.work)

    @cached_property
    def operators(self) -> tuple[RooflineRow, ...]:
        """Rows by operator and argument sizes, the longest ones; `family` holds both."""
        return operator_rows_of(self.work, self.device)

    @property
    def judged_share(self) -> float:
        """Share of kernel time that is classed as compute- or memory-bound by cost, not by kind."""
        return share(self.work.ns[~self.work.class_.are("")].sum(), self.work.ns.sum()) or 0.0


def roofline_of(timeline: Timeline, device: Device) -> Roofline:
    """The roofline of one rank; every cost is unknown if operators carry no shapes."""
    operator = owners.operators(timeline)
    costs = _settled(costs_of(timeline, operator), device)
    work = _judged(timeline, costs, device)
    kernel_ns = int(work.ns.sum())
    return Roofline(
        operator=operator,
        class_=Labels(_over_activities(timeline, costs.at, work.class_.code, CLASSES.index("")), CLASSES),
        bound=Labels(_over_activities(timeline, costs.at, work.bound.code, BOUNDS.index("unknown")), BOUNDS),
        sized=_over_activities(timeline, costs.at, work.sized, False),
        sized_share=share(work.ns[work.sized].sum(), kernel_ns) or 0.0,
        work=work,
        device=device,
    )


def _settled(costs: KernelCosts, device: Device) -> KernelCosts:
    """The costs with float work that may be TF32 or fp32 settled: fp32 on a device without TF32, else unknown."""
    without = device.gpu is not None and device.peak("tf32") is None
    told = costs.precision.but(costs.precision.are(UNSETTLED), "fp32" if without else "")
    return replace(costs, precision=told)


def _judged(timeline: Timeline, costs: KernelCosts, device: Device) -> KernelWork:
    gpu, windows = timeline.gpu, timeline.windows
    start, end = gpu.start[costs.at], gpu.end[costs.at]
    inside = iv.intervals(windows[:, 0], windows[:, 1])
    ns = iv.coverage(inside, *iv.exclusive(start, end))
    starts_inside, share = iv.holds(inside, start), iv.covered_share(inside, start, end)
    lasts = np.maximum(end - start, 1)
    del start, end
    compute_s, memory_s = _lower_bounds(costs, device)
    class_, computes = _classes(costs, compute_s, memory_s), compute_s >= np.nan_to_num(memory_s)
    least_s = np.where(np.isnan(memory_s), compute_s, np.maximum(compute_s, memory_s))
    del compute_s, memory_s
    return KernelWork(
        timeline=timeline,
        costs=costs,
        ns=ns.astype(narrowest(ns)),
        starts_inside=starts_inside,
        inside_share=_mostly_whole(share),
        above_ns=np.maximum(ns - least_s * share * 1e9, 0.0),
        class_=class_,
        bound=_bounds(timeline, costs, least_s / (lasts / 1e9), computes),
    )


def _mostly_whole(share: Floats) -> Coded:
    """The shares, of which few are neither 0 nor 1."""
    parts = np.flatnonzero((share > 0) & (share < 1))
    code = (share == 1).astype(np.min_scalar_type(len(parts) + 1))
    code[parts] = np.arange(2, len(parts) + 2)
    return Coded(code, np.concatenate(([0.0, 1.0], share[parts])))


def _lower_bounds(costs: KernelCosts, device: Device) -> tuple[Floats, Floats]:
    """Seconds that each kernel's FLOPs and bytes take at the device's peak and bandwidth; NaN unknown."""
    peak = np.array([device.peak(name) or np.nan for name in costs.precision.names], np.float64)[costs.precision.code]
    compute = np.where(costs.flops == 0, 0.0, costs.flops / peak)
    bandwidth = device.hbm_bytes_per_s or np.nan
    return (compute if device.hbm_bytes_per_s else np.full(len(peak), np.nan)), costs.bytes / bandwidth


def _classes(costs: KernelCosts, compute_s: Floats, memory_s: Floats) -> Labels:
    known = ~np.isnan(compute_s) & ~np.isnan(memory_s) & ~costs.auxiliary
    none, compute, memory = (np.uint8(CLASSES.index(name)) for name in ("", "compute", "memory"))
    return Labels(np.where(known, np.where(compute_s >= memory_s, compute, memory), none), CLASSES)


def _bounds(timeline: Timeline, costs: KernelCosts, reached: Floats, computes: Mask) -> Labels:
    gpu = timeline.gpu
    short = gpu.end[costs.at] - gpu.start[costs.at] < SHORT_NS
    few = timeline.trace.blocks_per_sm[gpu.row[costs.at]] < 1
    compute, latency, memory, filled, unknown = np.arange(len(BOUNDS), dtype=np.uint8)
    otherwise = np.where(short, latency, np.where(few, filled, unknown))
    bound = np.where(reached >= NEAR_ROOF, np.where(computes, compute, memory), otherwise)
    return Labels(np.where(np.isnan(reached), unknown, bound), BOUNDS)


def _over_activities(timeline: Timeline, at: Ints, values: Any, absent: Any) -> Any:
    """The values of kernels, aligned with all GPU activities."""
    aligned = np.full(len(timeline.gpu), absent, values.dtype)
    aligned[at] = values
    return aligned


# The operators whose kernels take longest, each with its argument sizes, against the roofline.

MOST = 20
_LONGEST = 60


def operator_rows_of(work: KernelWork, device: Device) -> tuple[RooflineRow, ...]:
    """One row for each operator and argument sizes, longest first, at most MOST; `family` is both as text."""
    trace, owner = work.timeline.trace, work.costs.owner
    known = np.flatnonzero(owner >= 0)
    if not len(known):
        return ()
    keys, number = distinct(trace.name[owner[known]], trace.shape[owner[known]])
    ns = np.bincount(number, weights=work.ns[known], minlength=keys.shape[1])
    longest = np.argsort(-ns, kind="stable")[:MOST]
    rank = np.full(keys.shape[1], MOST, np.uint8)
    rank[longest] = np.arange(len(longest))
    rows = []
    for at, chosen in zip(longest[ns[longest] > 0], grouped(rank[number]), strict=False):
        chosen = known[chosen]
        name = _spelled(trace.names[keys[0, at]], trace.shapes[keys[1, at]] if keys[1, at] >= 0 else None)
        rows.append(row_of(work, device, (name, "", _precision(work, chosen)), chosen))
    return tuple(rows)


def _precision(work: KernelWork, chosen: Ints) -> str:
    """The precision of the longest kernel that the operator launched."""
    longest = np.argmax(work.ns[chosen])
    return work.costs.precision[chosen[longest : longest + 1]].tolist()[0]


def _spelled(name: str, shape: tuple[bytes, bytes, bytes] | None) -> str:
    """`mm [512x1024, 1024x32000]`."""
    sizes = ", ".join("x".join(map(str, dims)) for dims in tensor_sizes(shape[0])) if shape else ""
    short = f"{sizes[:_LONGEST]}..." if len(sizes) > _LONGEST else sizes
    return f"{name.removeprefix('aten::')} [{short}]" if sizes else name.removeprefix("aten::")
