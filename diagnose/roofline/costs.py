"""The work and traffic of every kernel: its share of the operator that launched it.

The cost of an operator is counted once and divided among its kernels by their time. For a matrix operator, only the
matrix kernels share it; its auxiliary kernels (layout copies, fills) have none. An operator that is not modelled passes
its kernels to the counted operator around it, if there is one; otherwise their cost is unknown.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from diagnose.arrays import Floats, Ints, Labels, Mask, distinct, rows_in
from diagnose.roofline import nests, owners
from diagnose.roofline.calls import OperatorCall, call_of
from diagnose.roofline.flop_formulas import FORMULAS, Outputs, direction
from diagnose.roofline.flops import CountedOperators, convolution_outputs, counted
from diagnose.roofline.traffic import bytes_of
from diagnose.timeline import Timeline
from diagnose.timeline.kernel_names import AUXILIARY, COMPUTE_FAMILIES, element_bytes

_FEWER_OPERATIONS = ("winograd", "fft")  # tags of kernels
UNSETTLED = "float"  # tensors are float, and the kernel may be TF32 or fp32
_SINGLE = {True: "tf32", False: "fp32", None: UNSETTLED}  # precision of float products, on tensor cores or not


class KernelCosts(msgspec.Struct, frozen=True):
    """Aligned with the kernels `at`, positions of the timeline's GPU activities without collectives and copies.

    Attributes:
        at: positions in the timeline's activities, ascending.
        owner: row of the operator whose cost the kernel shares, -1 when unknown.
        flops: its FLOPs, causal attention at half the scores; 0 for what is not counted, NaN unknown.
        bytes: its least bytes; NaN unknown.
        auxiliary: kernels of a matrix operator that are no matrix kernels.
        precision: what matrix kernels compute in, of other kernels the type of their data; "" unknown, UNSETTLED
            float with or without tensor cores.
        indirect: kernels of a convolution in which one is a Winograd or FFT kernel, so that the operator does fewer
            operations than are counted.
        direction: "forward" or "backward" of a convolution or attention, else "".
    """

    at: Ints
    owner: Ints
    flops: Floats
    bytes: Floats
    auxiliary: Mask
    precision: Labels
    indirect: Mask
    direction: Labels


class _Counted(NamedTuple):
    operators: CountedOperators | None
    outputs: Outputs


class _Priced(msgspec.Struct, frozen=True):
    """Aligned with operators: the cost of each, the type of its data, and whether it is a matrix operator."""

    flops: Floats
    bytes: Floats
    data: Labels
    direction: Labels
    matrix: Mask

    @property
    def known(self) -> Mask:
        return np.where(self.matrix, self.flops > 0, ~np.isnan(self.bytes))


def costs_of(timeline: Timeline, operator: Ints) -> KernelCosts:
    """The cost of every kernel; `operator` is aligned with the activities, as `owners.operators` returns it."""
    gpu = timeline.gpu
    at = rows_in(np.flatnonzero(~gpu.is_communication & ~gpu.is_copy), len(gpu))
    work = _Counted(counted(timeline), convolution_outputs(timeline))
    owner, which, lead, priced = _priced_owners(timeline, at, operator[at], work)
    priced = _only_known(priced)
    matrix = gpu.of_family(*COMPUTE_FAMILIES)[at]
    weight, auxiliary = _weights(gpu.end[at] - gpu.start[at], which, matrix, priced.matrix)
    flops = np.where(auxiliary, 0.0, priced.flops[which] * weight)
    bytes_ = np.where(auxiliary, 0.0, priced.bytes[which] * weight)
    ran = _precisions(timeline, at, lead, which, matrix, priced)
    way = priced.direction[which].but(~matrix, "")
    indirect = matrix & _indirect(timeline, at, owner, which)
    return KernelCosts(at, np.where(np.isnan(flops), nests.NONE, owner), flops, bytes_, auxiliary, ran, indirect, way)


def _priced_owners(timeline: Timeline, at: Ints, operator: Ints, work: _Counted) -> tuple[Ints, Ints, Ints, _Priced]:
    """The operator itself if its cost is known, else the innermost counted one around it.

    Also returns the groups of the kernels by owner, and the price of each.
    """
    which, lead = _groups(timeline, at, operator)
    rows = operator[lead]
    priced = _price(timeline, rows, at[lead], work)
    unknown = ~priced.known & (rows >= 0)
    operators = work.operators
    if operators is None or not unknown.any():
        return operator, which, lead, priced
    outer = owners.around(timeline.trace, operators.rows[operators.flops > 0], rows[unknown])
    if (outer < 0).all():
        return operator, which, lead, priced
    rows = rows.copy()
    rows[unknown] = np.where(outer >= 0, outer, rows[unknown])
    owner = rows[which]
    which, lead = _groups(timeline, at, owner)
    return owner, which, lead, _price(timeline, owner[lead], at[lead], work)


def _groups(timeline: Timeline, at: Ints, owner: Ints) -> tuple[Ints, Ints]:
    """For each kernel the number of its operator, and for each operator its longest kernel, matrix kernels first."""
    gpu = timeline.gpu
    main = (gpu.of_family(*COMPUTE_FAMILIES) & ~gpu.tagged(AUXILIARY))[at]
    if not len(at):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(owner, kind="stable")
    ordered = owner[order]
    begins = np.append(True, ordered[1:] != ordered[:-1])
    group, first = np.cumsum(begins) - 1, np.flatnonzero(begins)
    time = gpu.end[at] - gpu.start[at]
    long = np.where(main, time + int(time.max()) + 1, time)[order]
    longest = np.flatnonzero(long == np.maximum.reduceat(long, first)[group])
    which, lead = np.empty(len(at), np.int64), np.empty(len(first), np.int64)
    which[order] = group
    lead[group[longest]] = order[longest]  # the last of several
    return which, lead


def _price(timeline: Timeline, rows: Ints, lead: Ints, work: _Counted) -> _Priced:
    """The cost of each operator row (-1 has none); the name of activity `lead` gives the element type of tensor
    lists.
    """
    trace = timeline.trace
    item = _item_bytes(timeline)[trace.name[timeline.gpu.row[lead]]]
    named = np.where(rows >= 0, trace.name[rows], -1)
    shape = np.where(rows >= 0, trace.shape[rows], -1)
    keys, which = owners.distinct(named, shape, item)
    calls = [_call(timeline, *(int(v) for v in k)) for k in keys.T]
    least = np.array([np.nan if c is None else _or_nan(bytes_of(c, work.outputs)) for c in calls], np.float64)
    paired = np.isin(rows, [] if work.operators is None else work.operators.paired)
    matrix = np.array([c is not None and c.name in FORMULAS for c in calls], bool)[which] | paired
    flops = np.where(matrix, _own_flops(rows, work.operators), np.where(np.isnan(least), np.nan, 0.0)[which])
    data = Labels.of(["" if c is None else c.precision for c in calls], which)
    way = Labels.of(["" if c is None else direction(c.name) for c in calls], which)
    return _Priced(flops, least[which], data, way.but(paired, "backward"), matrix)


def _call(timeline: Timeline, name: int, shape: int, item: int) -> OperatorCall | None:
    trace = timeline.trace
    return call_of(trace.names[name], trace.shapes[shape], item) if shape >= 0 else None


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _own_flops(rows: Ints, operators: CountedOperators | None) -> Floats:
    """FLOPs of each operator beyond those of counted ones inside it; of causal attention, those within its mask."""
    if operators is None or not len(operators.rows):
        return np.full(len(rows), np.nan)
    at = np.minimum(np.searchsorted(operators.rows, rows), len(operators.rows) - 1)
    return np.where(operators.rows[at] == rows, operators.flops[at] * operators.causal[at], np.nan)


def _only_known(priced: _Priced) -> _Priced:
    known = priced.known
    flops, bytes_ = np.where(known, priced.flops, np.nan), np.where(known, priced.bytes, np.nan)
    return _Priced(flops, bytes_, priced.data, priced.direction, priced.matrix & known)


def _weights(time: Ints, which: Ints, matrix: Mask, of_matrix: Mask) -> tuple[Floats, Mask]:
    """Each kernel's share of its operator, and which kernels have none because matrix kernels do the work."""
    groups = len(of_matrix)
    has_matrix = np.bincount(which[matrix], minlength=groups) > 0
    auxiliary = (of_matrix & has_matrix)[which] & ~matrix
    working = np.where(auxiliary, 0, np.maximum(time, 1))
    total = np.bincount(which, weights=working, minlength=groups)
    return working / np.maximum(total, 1)[which], auxiliary


def _precisions(timeline: Timeline, at: Ints, lead: Ints, which: Ints, matrix: Mask, priced: _Priced) -> Labels:
    """Precision by the name of the operator's longest matrix kernel, else by the type of its data."""
    gpu = timeline.gpu
    kind = gpu.kind[at]
    named = np.where(priced.matrix[which] & matrix, lead[which], np.arange(len(at)))
    told = Labels.of([k.precision for k in gpu.kinds], kind[named])
    single = Labels.of([_SINGLE[k.tensor_core] for k in gpu.kinds], kind[lead])
    fallback = single.otherwise(priced.data.are("fp32"), priced.data)[which]
    return told.otherwise(matrix & ~told.are(""), fallback.otherwise(matrix, priced.data[which]))


def _indirect(timeline: Timeline, at: Ints, owner: Ints, which: Ints) -> Mask:
    fewer = timeline.gpu.tagged(*_FEWER_OPERATIONS)[at]
    among = np.bincount(which[fewer], minlength=int(which.max(initial=-1)) + 1) > 0
    return np.where(owner >= 0, among[which], fewer)


def _item_bytes(timeline: Timeline) -> Ints:
    """Bytes of an element by name id, from the names of GPU activities; 0 if unknown."""
    item = np.zeros(len(timeline.trace.names), np.int64)
    for name in distinct(timeline.trace.name[timeline.gpu.row]).tolist():
        item[name] = element_bytes(timeline.trace.names[name])
    return item
