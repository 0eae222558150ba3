"""Products with one-hot rows: what they take, and what making the rows takes."""

import math
from collections.abc import Iterator

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.facts import STEP, Value
from diagnose.metrics.kernel_groups.operators import sizes_of
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_SHAPES
from diagnose.trace.vocabulary import BACKWARD, OPS

LEAST_COLUMNS = 64  # of fewer, a product costs no more than a lookup
_SETS = r"aten::scatter_$"
_MAKES = r"aten::(one_hot|scatter_|zero_|fill_|copy_)$"
_PRODUCT = r"aten::(mm|addmm|bmm|baddbmm)$"
Sizes = tuple[tuple[int, ...], ...]


@metric("share", STEP, needs_gpu=False)
def one_hot_product_share(m: Measured) -> Value:
    """Products with rows of which one element is set (`scatter_` of one index for each row), forward and backward, and
    the work that makes these rows; 0 if no forward pass multiplies such rows.
    """
    if m.device_unseen:
        return m.device_unseen
    products, makers = _rows(m, _PRODUCT), _rows(m, _MAKES)
    if len(products) and not any(sizes for _, sizes in _sized(m, products)):
        return NO_SHAPES
    forward = products[~iv.holds(m.ranges(BACKWARD), m.timeline.trace.ts[products])]
    read = {sizes for _, each in _sized(m, forward) for sizes in each}
    one_hot = {sizes for sizes in _one_hot_sizes(m) if sizes in read}
    elements = {math.prod(sizes) for sizes in one_hot}
    either = one_hot | {sizes[::-1] for sizes in one_hot}
    chosen = [row for row, each in _sized(m, products) if either.intersection(each)]
    chosen += [row for row, each in _sized(m, makers) if each and math.prod(each[0]) in elements]
    return m.operators_share(np.array(sorted(chosen), np.int64))


def _rows(m: Measured, pattern: str) -> Ints:
    return m.in_steps_of_host(m.timeline.rows_matching(pattern, *OPS))


def _sized(m: Measured, rows: Ints) -> Iterator[tuple[int, Sizes]]:
    """The rows with the sizes of their tensors, none if they are not recorded."""
    for row, shape in zip(rows.tolist(), m.timeline.trace.shape[rows].tolist(), strict=True):
        yield row, sizes_of(m, shape)


def _one_hot_sizes(m: Measured) -> Iterator[tuple[int, int]]:
    """Rows and columns of the matrices in which each row has one element set."""
    for _, each in _sized(m, _rows(m, _SETS)):
        if len(each) > 1 and each[1] == (*each[0][:-1], 1) and each[0][-1] >= LEAST_COLUMNS:
            yield math.prod(each[0][:-1]), each[0][-1]
