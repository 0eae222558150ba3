"""The operators whose kernels take longest, each with its argument sizes, against the roofline."""

import numpy as np

from diagnose.arrays import Ints
from diagnose.hardware import Device
from diagnose.roofline.owners import distinct
from diagnose.roofline.rows import KernelWork, RooflineRow, row_of
from diagnose.timeline import grouped
from diagnose.trace.arguments import tensor_sizes

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
