"""Embedding tables: what lookups and their gradients take, how many there are, and how many rows they touch."""

import math

import numpy as np

from diagnose.arrays import Ints
from diagnose.facts import STEP, Unknown, Value, capture_setting, nothing_helps
from diagnose.formulas import share
from diagnose.metrics.kernel_groups.operators import sizes_of
from diagnose.metrics.kernels.optimizer_on_cpu import cpu_optimizer_share
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.flops import model_shape
from diagnose.metrics.model.tokens import product_widths
from diagnose.metrics.registry import metric
from diagnose.metrics.run.setup import batches_of_a_step
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
    return m.in_steps_of_host(m.timeline.rows_matching(pattern, *OPS))


def _share(m: Measured, pattern: str) -> float | Unknown:
    return m.operators_share(m.timeline.rows_matching(pattern, *OPS))


@metric("share", STEP, needs_gpu=False)
def embedding_share(m: Measured) -> Value:
    """Work that looks up embeddings and makes their gradients, FBGEMM's fused one with the update included."""
    return _share(m, _EVERY)


@metric("share", STEP, needs_gpu=False)
def dense_embedding_gradient_share(m: Measured) -> Value:
    """Work that writes gradients of whole embedding tables, which begins with zeroes everywhere."""
    return _share(m, _DENSE)


@metric("share", STEP, needs_gpu=False)
def untouched_rows_update_share(m: Measured) -> Value:
    """The optimizer's work on rows that no lookup reads: its time by the rows' part of the recorded parameters."""
    update = m.share("optimizer") if m.timeline.has_gpu else cpu_optimizer_share(m)
    touched, part = touched_rows_share(m), _tables_share(m)
    if isinstance(update, Unknown) or isinstance(touched, Unknown) or isinstance(part, Unknown):
        return next(each for each in (update, touched, part) if isinstance(each, Unknown))
    return float(update) * part * (1 - float(touched))


@metric("share", STEP, needs_gpu=False)
def dense_embedding_share(m: Measured) -> Value:
    """Work that dense gradients of embedding tables cost: writing them, and the optimizer's on rows that no lookup
    reads, where that is known.
    """
    gradient, update = dense_embedding_gradient_share(m), untouched_rows_update_share(m)
    return gradient if isinstance(gradient, Unknown) or isinstance(update, Unknown) else float(gradient) + float(update)


def _tables_share(m: Measured) -> float | Unknown:
    """The tables' part of the recorded parameters: a table for each lookup of a micro-batch."""
    everything = m.record.number("model.parameters")
    if not everything:
        return m.unrecorded
    looked_up = m.timeline.steps.each(sum(math.prod(dims[0]) * times for dims, times in _sized(m)))
    return min(looked_up / batches_of_a_step(m) / everything, 1.0)


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
    if not m.once(_lookups):
        return NO_LOOKUPS
    tables = sum(math.prod(dims[0]) * times for dims, times in _sized(m))
    touched = sum(min(math.prod(dims[1]), dims[0][0]) * dims[0][1] * times for dims, times in _sized(m))
    found = share(touched, tables)
    return NO_SIZES if found is None else found


def _lookups(m: Measured) -> list[tuple[tuple[tuple[int, ...], ...], int]]:
    """Sizes of lookups' arguments in the counted steps, none if not recorded, and the number of lookups of each."""
    each, times = np.unique(m.timeline.trace.shape[_rows(m, _LOOKUP)], return_counts=True)
    return [(sizes_of(m, shape), n) for shape, n in zip(each.tolist(), times.tolist(), strict=True)]


def _sized(m: Measured) -> list[tuple[tuple[tuple[int, ...], ...], int]]:
    """Lookups with the sizes of the table and of the indices."""
    return [(dims, times) for dims, times in m.once(_lookups) if len(dims) > 1 and len(dims[0]) == 2]


@metric("flag", needs_gpu=False)
def embeds_vocabulary(m: Measured) -> Value:
    """Whether a table has as many rows as a matrix product is wide: a language model's vocabulary, and its head."""
    tables = {dims[0][0] for dims, _ in _sized(m)}
    if tables:
        return not tables.isdisjoint(product_widths(m))
    return NO_SIZES if m.once(_lookups) else False


@metric("share", "the parameters of the model", needs_gpu=False)
def vocabulary_parameter_share(m: Measured) -> Value:
    """Embedding tables and the head of a language model: what grows with its vocabulary and positions."""
    shape = model_shape(m)
    if isinstance(shape, Unknown):
        return shape
    head = shape.head_weights if shape.lm_head and not shape.tied else 0
    return (shape.embedding_parameters + head) / shape.parameters
