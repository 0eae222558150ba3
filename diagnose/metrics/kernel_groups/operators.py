"""Groups of kernels by the operators that launched them, by their kind or by their name.

Few distinct operators are called many times, so each signature's name and sizes are examined once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce

import msgspec
import numpy as np

from diagnose.arrays import Array, Ints, Mask, among, combined, distinct, marked, rows_in
from diagnose.facts import Unknown, another_run
from diagnose.metrics.kernel_groups.registry import Group
from diagnose.metrics.measured import Measured
from diagnose.roofline import owners
from diagnose.timeline.kernel_names import Kind
from diagnose.trace.arguments import tensor_sizes

NEAR = 4  # operators on either side of one that show what it belongs to
Members = Callable[[Sequence[str], int], Iterator[int]]
NOT_LINKED = Unknown("kernels are not linked to operators", another_run("capture CPU and CUDA activities together"))


class Signature(msgspec.Struct, frozen=True):
    """The signature of many calls of an operator: its name and the sizes of its tensor arguments, none if not recorded.

    `shape` indexes `Trace.shapes`, -1 if nothing is recorded. `calls` is the number of calls that launched kernels in
    the counted steps.
    """

    name: str
    dims: tuple[tuple[int, ...], ...]
    shape: int
    calls: int


class Launching(msgspec.Struct, frozen=True):
    """The signatures of the operators that launched kernels in the counted steps, each once.

    `of_operator` indexes them for each of `Measured.operators`, `of_activity` for each GPU activity; -1 for activities
    that are no such kernels.
    """

    signatures: tuple[Signature, ...]
    of_operator: Ints
    of_activity: Ints


def launching(m: Measured) -> Launching:
    """The operators that launched kernels in the counted steps, by signature."""
    return m.once(_launching)


def _launching(m: Measured) -> Launching:
    trace, rows = m.timeline.trace, m.operators
    pairs, which = owners.distinct(trace.name[rows], trace.shape[rows])
    calls = np.bincount(which, minlength=pairs.shape[1])
    which = which.astype(narrow := np.min_scalar_type(-1 - pairs.shape[1]))
    of_row = np.full(len(trace) + 1, -1, narrow)
    of_row[rows] = which
    signatures = (
        Signature(trace.names[name], sizes_of(m, shape), shape, times)
        for name, shape, times in zip(*pairs.tolist(), calls.tolist(), strict=True)
    )
    return Launching(tuple(signatures), which, np.where(m.kernels, of_row[m.operator], -1))


def sizes_of(m: Measured, shape: int) -> tuple[tuple[int, ...], ...]:
    """Sizes of the tensor arguments in a row of `Trace.shapes`; empty for -1, if they are not recorded."""
    return tensor_sizes(m.timeline.trace.shapes[shape][0]) if shape >= 0 else ()


def signatures(m: Measured, of_name: Callable[[str], bool] = bool) -> list[Signature]:
    """Signatures of the operators that launched kernels in the counted steps, filtered by `of_name` if given."""
    return [signature for signature in launching(m).signatures if of_name(signature.name)]


def launched_by(m: Measured, belongs: Callable[[Signature], bool]) -> Mask:
    """Kernels in the counted steps launched by the operators whose signature belongs."""
    found = launching(m)
    return np.array([*map(belongs, found.signatures), False], bool)[found.of_activity]


def no_kernels(m: Measured) -> Mask:
    """The mask of none."""
    return np.zeros(len(m.timeline.gpu), bool)


def by_operator(m: Measured, wanted: Ints) -> Mask:
    """Kernels in the counted steps that the operators in the rows `wanted` launched."""
    return among(m.operator, wanted) & m.kernels


def has_shapes(signatures: Iterable[Signature]) -> bool:
    """Whether any of the operators carries the sizes of its arguments."""
    return any(signature.shape >= 0 for signature in signatures)


def sequences(m: Measured, anchors: set[str], members: Members) -> Group:
    """Kernels of the launching operators that `members` finds around each anchor, in the order of their dispatch."""
    trace = m.timeline.trace
    if not len(m.operators):
        return NOT_LINKED
    order = m.operators[dispatched(m)]
    return by_operator(m, order[found_near(trace.name[order], trace.names, anchors.__contains__, members)])


def dispatched(m: Measured) -> Ints:
    """Positions of the launching operators in the order of their dispatch."""
    return m.once(_dispatched)


def _dispatched(m: Measured) -> Ints:
    return rows_in(np.argsort(m.timeline.trace.ts[m.operators], kind="stable"), len(m.operators))


def found_near(name: Array, names: Sequence[str], is_anchor: Callable[[str], bool], members: Members) -> Ints:
    """Positions that `members` finds near each anchor in a sequence, of which `name` indexes `names`.

    `members` is called once for each distinct neighbourhood of NEAR names on either side, with "" beyond the ends of
    the sequence.
    """
    anchor = np.flatnonzero(marked(np.array([is_anchor(each) for each in names], bool), name))
    if not len(anchor):
        return anchor
    near = anchor[:, None] + np.arange(-NEAR, NEAR + 1)
    there = (near >= 0) & (near < len(name))
    around = np.where(there, name[np.where(there, near, 0)], -1)
    _, first, which = np.unique(reduce(combined, around.T), return_index=True, return_inverse=True)
    chosen, spelled = np.zeros((len(first), near.shape[1]), bool), (*names, "")
    for row, each in enumerate(around[first].tolist()):
        chosen[row, [*members([spelled[at] for at in each], NEAR)]] = True
    return distinct(near[chosen[which]])


def of_kind(m: Measured, belongs: Callable[[Kind], bool]) -> Mask:
    """Mask of the activities whose kind belongs."""
    if not len(m.timeline.gpu):
        return np.zeros(0, bool)
    return np.array([belongs(kind) for kind in m.timeline.gpu.kinds], bool)[m.timeline.gpu.kind]
