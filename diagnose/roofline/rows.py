"""The kernels of the counted steps by family and precision: what they computed and moved, and how fast."""

from functools import cached_property

import msgspec
import numpy as np

from diagnose.arrays import Coded, Floats, Ints, Labels, Mask, shortened
from diagnose.formulas import share
from diagnose.hardware import Device
from diagnose.roofline.costs import KernelCosts
from diagnose.roofline.owners import distinct
from diagnose.timeline import Timeline, grouped
from diagnose.timeline.kernel_names import COMPUTE_FAMILIES

CACHE_BYTES = 64e6  # the L2 of an H100 holds 50 MB
FASTER = "part of the bytes stay in the cache, or the bandwidth is another"


class RooflineRow(msgspec.Struct, frozen=True):
    """Kernels of one family, direction and precision over the counted steps.

    Attributes:
        family: kind of kernel, as in the breakdown.
        direction: "forward" or "backward" of convolutions and attention, "" if operators do not show it.
        precision: "bf16", "fp16", "tf32", "fp32", "fp8", ...; for kernels that multiply no matrices, the type of their
            data; "" unknown.
        ns: their time that no earlier kernel covers; the rows add up to the breakdown's kernel time.
        sized_ns: the part of `ns` whose cost is known; the following fields are over this part.
        kernels: number of kernels that began in the counted steps.
        flops: executed FLOPs, None if no cost is known.
        bytes: least bytes moved, None if no cost is known.
        intensity: FLOPs per byte, an upper bound.
        tflops: TFLOP/s reached; None for kernels whose FLOPs are not counted.
        gbs: GB/s reached, a lower bound.
        class_: "compute" or "memory", by the larger part of the time; "" unknown.
        bound: the bound of most of the time: compute, memory, latency, under-filled or unknown.
        above_roof_ns: time above the lower bound max(FLOPs / peak, bytes / bandwidth); None if unknown.
        note: how to read figures that look wrong, "" if they do not.
    """

    family: str
    direction: str
    precision: str
    ns: int
    sized_ns: int
    kernels: int
    flops: float | None
    bytes: float | None
    intensity: float | None
    tflops: float | None
    gbs: float | None
    class_: str
    bound: str
    above_roof_ns: int | None
    note: str


class MatrixWork(msgspec.Struct, frozen=True):
    """Matrix, convolution and attention kernels of one precision with known cost: FLOPs and time in counted steps."""

    precision: str
    flops: float
    ns: int


class KernelWork(msgspec.Struct, frozen=True, dict=True):
    """Aligned with the kernels of `costs`: their time in the counted steps, which part of each is in there, and
    judgements.
    """

    timeline: Timeline
    costs: KernelCosts
    ns: Ints
    starts_inside: Mask
    inside_share: Coded
    above_ns: Floats
    class_: Labels
    bound: Labels

    @cached_property
    def sized(self) -> Mask:
        """Mask of the kernels with a known cost."""
        return ~np.isnan(self.costs.flops)


def rows_of(work: KernelWork, device: Device) -> tuple[RooflineRow, ...]:
    """One row for each family, direction and precision that has time in the counted steps, longest first."""
    gpu, costs = work.timeline.gpu, work.costs
    if not len(costs.at):
        return ()
    told = (Labels.of([k.family for k in gpu.kinds], gpu.kind[costs.at]), costs.direction, costs.precision)
    keys, number = distinct(*(labels.code for labels in told))
    each = zip(keys.T.tolist(), grouped(shortened(number, keys.shape[1])), strict=True)
    rows = [
        row_of(work, device, (told[0].names[f], told[1].names[d], told[2].names[p]), chosen)
        for (f, d, p), chosen in each
    ]
    return tuple(sorted((r for r in rows if r.ns), key=lambda r: -r.ns))


def row_of(work: KernelWork, device: Device, key: tuple[str, str, str], chosen: Ints) -> RooflineRow:
    """The row of the kernels at the places `chosen`; `key` is family, direction and precision."""
    each_ns, is_sized = work.ns[chosen], work.sized[chosen]
    sized = chosen[is_sized]
    ns, sized_ns = int(each_ns.sum()), int(each_ns[is_sized].sum())
    inside = work.inside_share[sized]
    flops = float((work.costs.flops[sized] * inside).sum()) if sized_ns else None
    moved = work.costs.bytes[sized] * inside
    bytes_ = float(np.nansum(moved)) if sized_ns and not np.isnan(moved).all() else None
    tflops = flops / sized_ns / 1e3 if flops else None
    gbs = bytes_ / sized_ns if bytes_ else None
    above, fewer = work.above_ns[sized], share(each_ns[work.costs.indirect[chosen]].sum(), ns) or 0.0
    each_bytes = (bytes_ or 0.0) / max(len(sized), 1)
    return RooflineRow(
        *key,
        ns=ns,
        sized_ns=sized_ns,
        kernels=int(work.starts_inside[chosen].sum()),
        flops=flops,
        bytes=bytes_,
        intensity=flops / bytes_ if flops and bytes_ else 0.0 if bytes_ else None,
        tflops=tflops,
        gbs=gbs,
        class_=_most(work.class_[chosen], each_ns),
        bound=_most(work.bound[chosen], each_ns),
        above_roof_ns=int(np.nansum(above)) if len(above) and not np.isnan(above).all() else None,
        note=_note(device, key, fewer, tflops, gbs, share(sized_ns, ns) or 0.0, each_bytes),
    )


def _most(labels: Labels, ns: Ints) -> str:
    """The label with the most time."""
    spent = np.bincount(labels.code, weights=ns, minlength=len(labels.names))
    return max(labels.there(), key=lambda name: int(spent[labels.names.index(name)]), default="")


def _note(
    device: Device,
    key: tuple[str, str, str],
    fewer: float,
    tflops: float | None,
    gbs: float | None,
    sized: float,
    bytes_per_kernel: float,
) -> str:
    notes = []
    if fewer >= 0.005:
        notes.append(
            f"{100 * fewer:.0f} % of the time is in Winograd or FFT convolutions, which do fewer operations than the "
            "direct one that is counted"
        )
    peak = device.peak(key[2])
    if tflops and peak and tflops * 1e12 > peak:
        notes.append(f"above the {peak / 1e12:.1f} TFLOP/s {key[2]} peak")
    if gbs and device.hbm_bytes_per_s and gbs * 1e9 > device.hbm_bytes_per_s:
        cached = bytes_per_kernel <= CACHE_BYTES
        notes.append(f"faster than the memory: {'operands stay in the cache' if cached else FASTER}")
    if 0 < sized < 0.995:
        notes.append(f"the cost of {100 * (1 - sized):.0f} % of the time is unknown")
    return "; ".join(notes)


def matrix_work(work: KernelWork) -> tuple[MatrixWork, ...]:
    """Matrix kernels with a known cost by precision, most FLOPs first."""
    gpu, costs = work.timeline.gpu, work.costs
    matrix = gpu.of_family(*COMPUTE_FAMILIES)[costs.at] & work.sized & (work.ns > 0)
    works = []
    for precision in costs.precision[matrix].there():
        chosen = matrix & costs.precision.are(precision)
        flops = float((costs.flops[chosen] * work.inside_share[chosen]).sum())
        works.append(MatrixWork(precision, flops, int(work.ns[chosen].sum())))
    return tuple(sorted(works, key=lambda w: -w.flops))
