"""Attention that materialises its scores, recognised by the chain of its operators, of any length and head size.

Forward it is a product, whatever scales or masks its result, a softmax, and a product with the probabilities. Backward
the gradients of the second product come before the softmax's, those of the first one behind. Where sizes are recorded,
the results and operands have to be those of the softmax; else the products have to be its batched neighbours. Copies
that lay out the heads anew, of the operands before or of the result behind, are part of it: a fused kernel needs none.
"""

import math
import re
from collections.abc import Callable, Iterator
from functools import cache

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ints
from diagnose.attribution.operator_kinds import kind_of
from diagnose.metrics.kernel_groups.operators import sizes_of
from diagnose.metrics.measured import Measured
from diagnose.roofline.nests import enclosing, nested_order
from diagnose.timeline import thread_turns
from diagnose.trace import Trace
from diagnose.trace.vocabulary import OPS

_BATCHED, _FLAT, _OTHER, _SOFTMAX, _SOFTMAX_BACKWARD, _SCALE, _WRAPPER = range(1, 8)
_NAMES = (
    (_BATCHED, r"aten::(b|badd|baddb)mm_?"),
    (_FLAT, r"aten::mm"),
    (_OTHER, r"aten::\w*mm(_\w+)?|aten::(_?\w*convolution\w*|_?scaled_dot_product\w+)"),  # no product of attention's
    (_SOFTMAX_BACKWARD, r"(?!.*(log_?softmax|Backward\d|autograd::)).*softmax.*backward.*"),
    (_SOFTMAX, r"(?!.*(log_?softmax|Backward\d|autograd::|cross_entropy)).*softmax.*"),
    (_SCALE, r"aten::(mul|div|add|sub|true_divide|masked_fill|where)_?"),
    (_WRAPPER, r"aten::(matmul|einsum|tensordot)"),
)
_PATTERNS = tuple((of, re.compile(pattern, re.IGNORECASE)) for of, pattern in _NAMES)
_IDLES, _COPIES, _WORKS = range(3)
_NEAR = 40  # operators beside a chain: views, nodes of autograd and allocations stand before a copy
_SEARCHED = 8  # products on either side of a softmax: a bias of positions may be computed by products in between
Sizes = tuple[int, ...]


class AttentionChains(msgspec.Struct, frozen=True):
    """The operators of attention that writes its scores: their rows in the trace, and when they run."""

    rows: Ints
    instants: iv.Intervals


def attention_chains(m: Measured) -> AttentionChains:
    """The chains of one rank."""
    return m.once(_attention_chains)


def _attention_chains(m: Measured) -> AttentionChains:
    trace = m.timeline.trace
    kinds = np.array([_kind_of(name) for name in trace.names], np.int8)
    if not np.isin(kinds, (_SOFTMAX, _SOFTMAX_BACKWARD)).any():
        return AttentionChains(np.zeros(0, np.int64), iv.EMPTY)
    rows = np.flatnonzero(trace.rows_of(*OPS))
    nested = rows[nested_order(trace, rows)]
    found = _Search(trace, nested, kinds[trace.name[nested]], lambda shape: sizes_of(m, shape))
    spans = np.array(list(found.chains()), np.int64).reshape(-1, 2)
    changes = np.zeros(len(nested) + 1, np.int64)
    np.add.at(changes, spans[:, 0], 1)
    np.add.at(changes, spans[:, 1], -1)
    members = nested[np.cumsum(changes[:-1]) > 0]
    return AttentionChains(members, iv.intervals(trace.ts[members], trace.ends(members)))


@cache
def _kind_of(name: str) -> int:
    return next((of for of, pattern in _PATTERNS if pattern.fullmatch(name)), 0)


@cache
def _at_work(name: str) -> int:
    kind = kind_of(name)
    if kind is None or kind.cause in ("dispatch", "operator-allocation"):
        return _IDLES
    return _COPIES if kind.cause == "operator-copy" else _WORKS


class _Search:
    """Chains among operators in nested order; `kind` is what the name of each says, 0 if it matters to no chain."""

    def __init__(self, trace: Trace, nested: Ints, kind: Array, sizes_of_shape: Callable[[int], tuple[Sizes, ...]]):
        self.trace, self.nested, self.kind = trace, nested, kind
        self.sizes_of_shape = cache(sizes_of_shape)
        self.begins, self.up = trace.ts[nested], enclosing(trace, nested)
        turns = np.append(thread_turns(trace.pid[nested], trace.tid[nested]), len(nested))
        self.turns = turns
        self.at_work = np.array([_at_work(name) for name in trace.names], np.int8)
        self.scales = np.flatnonzero(kind == _SCALE)
        told = np.flatnonzero(np.isin(kind, (_BATCHED, _FLAT, _OTHER, _SOFTMAX, _SOFTMAX_BACKWARD)))
        around = np.where(self.up[told] >= 0, kind[self.up[told]], 0)
        self.told = told[around != kind[told]]  # a function of the name runs the operator of the name
        self.thread = np.searchsorted(turns, self.told, side="right")

    def chains(self) -> Iterator[tuple[int, int]]:
        """First position and the one behind the last of each chain."""
        softmax = np.flatnonzero(np.isin(self.kind[self.told], (_SOFTMAX, _SOFTMAX_BACKWARD)))
        for at in softmax.tolist():
            before, after = self._product(at, -1), self._product(at, 1)
            if before is None or after is None or not self._fit(before, at, after):
                continue
            if self.kind[self.told[at]] == _SOFTMAX_BACKWARD:  # each product has two gradients
                before, after = self._next(before, at, -1), self._next(after, at, 1)
            heads = {*self._of_heads(before, at), *self._of_heads(after, at)}
            first, last = self._outermost(int(self.told[before])), self._outermost(int(self.told[after]))
            yield self._reached(first, -1, heads), self._reached(self._behind(last) - 1, 1, heads) + 1

    def _product(self, softmax: int, way: int) -> int | None:
        """The nearest product of the scores on one side of the softmax, as an index of `told`."""
        at = softmax
        for _ in range(_SEARCHED):
            at += way
            if not self._is_product(at, softmax):
                return None
            scores, operands = self._sizes(softmax), self._sizes(at)
            if not scores or not operands:
                return at if self.kind[self.told[at]] == _BATCHED else None
            if self.kind[self.told[at]] != _OTHER and _touches(scores[0], operands[-2:], self._role(softmax, way)):
                return at
        return None

    def _role(self, softmax: int, way: int) -> str:
        """The place of the scores in a product on that side: forward the first makes them, the second takes them."""
        if way > 0:
            return "operand"
        return "result" if self.kind[self.told[softmax]] == _SOFTMAX else "either"

    def _next(self, at: int, softmax: int, way: int) -> int:
        """The product behind that of the same kind, if it is one of the same scores; else the product itself."""
        beyond = at + way
        if not self._is_product(beyond, softmax) or self.kind[self.told[beyond]] != self.kind[self.told[at]]:
            return at
        scores, operands = self._sizes(softmax), self._sizes(beyond)
        if not scores or not operands or _touches(scores[0], operands[-2:], self._role(softmax, way)):
            return beyond
        return at

    def _is_product(self, at: int, softmax: int) -> bool:
        there = 0 <= at < len(self.told) and self.thread[at] == self.thread[softmax]
        return bool(there and self.kind[self.told[at]] in (_BATCHED, _FLAT, _OTHER))

    def _fit(self, before: int, softmax: int, after: int) -> bool:
        """Whether both products are batched. A single head has none that are: then its scores have to be scaled.

        The product of a classifier or a router is with a weight, and what they weigh with the probabilities is not.
        """
        kinds = {int(self.kind[self.told[before]]), int(self.kind[self.told[after]])}
        if kinds == {_BATCHED}:
            return True
        between = np.searchsorted(self.scales, [self.told[before], self.told[softmax]])
        return kinds == {_FLAT} and bool(between[1] > between[0])

    def _sizes(self, at: int) -> tuple[Sizes, ...]:
        sizes = self.sizes_of_shape(int(self.trace.shape[self.nested[self.told[at]]]))
        return tuple(dims for dims in sizes if len(dims) >= 2)

    def _of_heads(self, product: int, softmax: int) -> Iterator[int]:
        """The numbers of elements of the queries, keys, values and results in a product: its tensors but the scores."""
        scores, operands = self._sizes(softmax), self._sizes(product)[-2:]
        if scores and len(operands) == 2:
            tensors = (*operands, (*operands[0][:-1], operands[1][-1]))
            yield from (math.prod(sizes) for sizes in tensors if math.prod(sizes) != math.prod(scores[0]))

    def _reached(self, position: int, way: int, heads: set[int]) -> int:
        """The last position on one side that copies one of the heads' tensors, with nothing that computes before it."""
        first, behind = self._thread_around(position)
        end = min(position + _NEAR, behind - 1) if way > 0 else max(position - _NEAR, first)
        reached = position
        for at in range(position + way, end + way, way):
            kind = self.at_work[self.trace.name[self.nested[at]]]
            if kind == _WORKS:
                break
            if kind == _COPIES:
                sizes = self.sizes_of_shape(int(self.trace.shape[self.nested[at]]))
                if not sizes or math.prod(sizes[0]) not in heads:
                    break
                reached = at
        return reached

    def _thread_around(self, position: int) -> tuple[int, int]:
        """The first position of the operator's thread, and the one behind its last."""
        turn = int(np.searchsorted(self.turns, position, side="right"))
        return int(self.turns[turn - 1]), int(self.turns[turn])

    def _outermost(self, position: int) -> int:
        """The matmul or einsum that runs the product, with the copies of its operands, else the product."""
        while (up := int(self.up[position])) >= 0 and self.kind[up] == _WRAPPER:
            position = up
        return position

    def _behind(self, position: int) -> int:
        """The position behind all that runs inside the operator."""
        end = self.trace.ends(self.nested[position])
        return position + int(np.searchsorted(self.begins[position : self._thread_around(position)[1]], end))


@cache
def _touches(scores: Sizes, operands: tuple[Sizes, ...], role: str) -> bool:
    """Whether the product has the scores as an "operand", as its "result" or as "either", in whatever order of heads.

    Probabilities may have one more column: the sink, which takes attention off all tokens.
    """
    if len(operands) < 2:
        return False
    rows, keys = math.prod(scores[:-1]), scores[-1]
    result = (*operands[0][:-1], operands[1][-1])
    shapes = {"operand": operands, "result": (result,), "either": (*operands, result)}[role]
    columns = (keys, keys - 1) if keys > 1 else (keys,)
    return any(size in columns and math.prod(shape) == rows * size for shape in shapes for size in shape[-2:])
