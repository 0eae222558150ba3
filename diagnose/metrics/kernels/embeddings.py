"""Embedding tables: what lookups and their gradients take, how many there are, and how many rows they touch."""

import math

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.facts import STEP, Unknown, Value, capture_setting, nothing_helps
from diagnose.formulas import share
from diagnose.metrics.kernel_groups.operators import sizes_of
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.flops import model_shape
from diagnose.metrics.model.tokens import product_widths
from diagnose.metrics.registry import metric
from diagnose.trace.vocabulary import OPS

_LOOKUP = r"aten::(embedding|_embedding_bag|_embedding_bag_forward_only)$"
_DENSE = r"aten::(embedding_dense_backward|_embedding_bag_dense_backward)$"
_SPARSE = r"aten::(embedding_sparse_backward|_embedding_bag_sparse_backward)$"
_FUSED = r"fbgemm::.*embedding.*lookup|.*SplitLookupFunction"
_EVERY = "|".join((_LOOKUP, _DENSE, _SPARSE, _FUSED))
NO_LOOKUPS = Unknown("no embedding is looked up in the counted steps", nothing_helps("there is no table to look up"))
NO_SIZES = Unknown("the sizes of the embedding tables are not recorded", capture_setting("record_shapes=True"))


def _rows(m: Measured, pattern: str) -> Ints:
    """Rows of the operators that begin in the counted steps."""
    rows = m.timeline.rows_matching(pattern, *OPS)
    return rows[iv.which_holds(m.timeline.steps.host, m.timeline.trace.ts[rows]) >= 0]


def _share(m: Measured, pattern: str) -> float | Unknown:
    trace, rows = m.timeline.trace, m.timeline.rows_matching(pattern, *OPS)
    return m.share_of(m.timeline.launched_in(iv.intervals(trace.ts[rows], trace.ends(rows))) & m.kernels)


@metric("share", STEP)
def embedding_share(m: Measured) -> Value:
    """Kernels that look up embeddings and make their gradients, FBGEMM's fused ones with the update included."""
    return _share(m, _EVERY)


@metric("share", STEP)
def dense_embedding_gradient_share(m: Measured) -> Value:
    """Kernels that write gradients of whole embedding tables, which begins with zeroes everywhere."""
    return _share(m, _DENSE)


@metric("flag", needs_gpu=False)
def embeddings_are_fused(m: Measured) -> Value:
    """Whether FBGEMM looks up many tables at once and updates the rows in the backward pass (TorchRec)."""
    return bool(len(_rows(m, _FUSED)))


@metric("count", needs_gpu=False)
def embedding_lookups_per_step(m: Measured) -> Value:
    """Embedding operators of a step's forward passes, one for each table and micro-batch; FBGEMM's are left out."""
    return m.timeline.steps.each(len(_rows(m, _LOOKUP)))


@metric("share", "the rows of the embedding tables", needs_gpu=False)
def touched_rows_share(m: Measured) -> Value:
    """Rows that a lookup reads at most, one for each index, of its table; by the size of the tables."""
    lookups = _lookups(m)
    if not lookups:
        return NO_LOOKUPS
    sized = [(dims[0], dims[1], times) for dims, times in lookups if len(dims) > 1 and len(dims[0]) == 2]
    tables = sum(table[0] * table[1] * times for table, _, times in sized)
    touched = sum(min(math.prod(indices), table[0]) * table[1] * times for table, indices, times in sized)
    found = share(touched, tables)
    return NO_SIZES if found is None else found


def _lookups(m: Measured) -> list[tuple[tuple[tuple[int, ...], ...], int]]:
    """Sizes of lookups' arguments in the counted steps, none if not recorded, and the number of lookups of each."""
    each, times = np.unique(m.timeline.trace.shape[_rows(m, _LOOKUP)], return_counts=True)
    return [(sizes_of(m, shape), n) for shape, n in zip(each.tolist(), times.tolist(), strict=True)]


@metric("flag", needs_gpu=False)
def embeds_vocabulary(m: Measured) -> Value:
    """Whether a table has as many rows as a matrix product is wide: a language model's vocabulary, and its head."""
    lookups = _lookups(m)
    tables = {dims[0][0] for dims, _ in lookups if len(dims) > 1 and len(dims[0]) == 2}
    if tables:
        return not tables.isdisjoint(product_widths(m))
    return NO_SIZES if lookups else False


@metric("share", "the parameters of the model", needs_gpu=False)
def vocabulary_parameter_share(m: Measured) -> Value:
    """Embedding tables and the head of a language model: what grows with its vocabulary and positions."""
    shape = model_shape(m)
    if shape is None:
        return Unknown("the record does not contain the sizes of the model", capture_setting("diagnose run"))
    head = shape.head_weights if shape.lm_head and not shape.tied else 0
    return (shape.embedding_parameters + head) / shape.parameters
