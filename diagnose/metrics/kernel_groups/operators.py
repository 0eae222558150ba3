"""Kernels told by the operators that launched them, by their kind or by their name."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from diagnose.arrays import Mask, among
from diagnose.facts import Unknown, another_run
from diagnose.metrics.kernel_groups.registry import Group
from diagnose.metrics.measured import Measured
from diagnose.timeline.kernel_names import Kind
from diagnose.trace.arguments import tensor_sizes

NOT_LINKED = Unknown("kernels are not linked to operators", another_run("capture CPU and CUDA activities together"))


def operator_dims(m: Measured, row: int) -> tuple[tuple[int, ...], ...]:
    """Sizes of an operator's tensor arguments; empty where they are not recorded."""
    shape = m.timeline.trace.shape[row]
    return tensor_sizes(m.timeline.trace.shapes[shape][0]) if shape >= 0 else ()


def operator_name(m: Measured, row: int) -> str:
    """An operator's name."""
    return m.timeline.trace.names[m.timeline.trace.name[row]]


def no_kernels(m: Measured) -> Mask:
    """The mask of none."""
    return np.zeros(len(m.timeline.gpu), bool)


def by_operator(m: Measured, wanted: set[int]) -> Mask:
    """Kernels in the counted steps that the operators in the rows `wanted` launched."""
    return among(m.operator, np.array(sorted(wanted), np.int64)) & m.kernels


def operators(m: Measured, of_name: Callable[[str], bool] | None = None) -> list[int]:
    """Rows of the operators that launched kernels in the counted steps, those `of_name` where that is given."""
    if of_name is None:
        return m.operators.tolist()
    wanted = np.array([of_name(name) for name in m.timeline.trace.names], bool)
    return m.operators[wanted[m.timeline.trace.name[m.operators]]].tolist()


def has_shapes(m: Measured, rows: list[int]) -> bool:
    """Whether any of the operators carries the sizes of its arguments."""
    return bool((m.timeline.trace.shape[rows] >= 0).any()) if rows else False


def sequences(m: Measured, anchors: set[str], members: Callable[[Sequence[str], int], Iterator[int]]) -> Group:
    """Kernels of the launching operators that `members` finds around each anchor, in the order of their dispatch."""
    trace = m.timeline.trace
    if not len(m.operators):
        return NOT_LINKED
    order = m.operators[np.argsort(trace.ts[m.operators], kind="stable")]
    is_anchor = np.array([name in anchors for name in trace.names], bool)[trace.name[order]]
    if not is_anchor.any():
        return no_kernels(m)
    names = [trace.names[name] for name in trace.name[order].tolist()]
    return by_operator(m, {int(order[i]) for at in np.flatnonzero(is_anchor).tolist() for i in members(names, at)})


def of_kind(m: Measured, belongs: Callable[[Kind], bool]) -> Mask:
    """Mask of the activities whose kind belongs."""
    if not len(m.timeline.gpu):
        return np.zeros(0, bool)
    return np.array([belongs(kind) for kind in m.timeline.gpu.kinds], bool)[m.timeline.gpu.kind]
