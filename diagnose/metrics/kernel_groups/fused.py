"""Kernels that a fused kernel does in one pass, recognised by the operators that launched them."""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from diagnose import intervals as iv
from diagnose.facts import Unknown
from diagnose.metrics.kernel_groups.attention_chains import attention_chains
from diagnose.metrics.kernel_groups.operators import (
    NOT_LINKED,
    by_operator,
    found_near,
    has_shapes,
    launched_by,
    no_kernels,
    sequences,
    signatures,
)
from diagnose.metrics.kernel_groups.registry import Group, group
from diagnose.metrics.measured import Measured
from diagnose.metrics.unknowns import NO_SHAPES
from diagnose.trace.vocabulary import ANNOTATIONS, BACKWARD

_MIN_VOCABULARY = 4096


@group("eager-attention")
def eager_attention(m: Measured) -> Group:
    """Kernels of attention that materialises its scores: softmax, its products, masks, casts and dropout.

    Recognised by the chain of operators that launched them: a product, a softmax and a product with its result, or
    their gradients.
    """
    softmax = m.kernels & m.timeline.gpu.of_family("softmax")
    if not (softmax & ~launched_by(m, lambda operator: "log_softmax" in operator.name)).any():
        return no_kernels(m)
    return by_operator(m, attention_chains(m).rows) if len(m.operators) else NOT_LINKED


@group("unfused-norm")
def unfused_norm(m: Measured) -> Group:
    """Kernels of RMS norms composed of pow, mean, rsqrt and mul, and of their gradients, without casts."""
    forward = sequences(m, {"aten::rsqrt"}, _norm)
    if isinstance(forward, Unknown) or not forward.any():
        return forward
    return forward | (m.timeline.launched_in(_norm_gradients(m)) & m.kernels)


def _norm_gradients(m: Measured) -> iv.Intervals:
    """The instants at which autograd computes them: it calls the nodes of a norm in the reverse of its order."""
    trace, nodes = m.timeline.trace, m.timeline.rows_matching(BACKWARD, *ANNOTATIONS)
    nodes = nodes[np.argsort(trace.ts[nodes], kind="stable")]
    called = [name.rpartition(" ")[2] for name in trace.names]
    chosen = nodes[found_near(trace.name[nodes], called, lambda name: name.startswith("RsqrtBackward"), _norm_backward)]
    return iv.intervals(trace.ts[chosen], trace.ends(chosen))


def _norm_backward(names: Sequence[str], at: int) -> Iterator[int]:
    """Positions of the nodes of the norm whose rsqrt is at `at`: two products before it, mean and pow after it."""
    before = (i for i in range(at - 1, at - 5, -1) if names[i].startswith("MulBackward"))
    yield from islice(before, 2)
    yield at
    yield from (i for i in range(at + 1, at + 4) if names[i].startswith(("MeanBackward", "PowBackward")))


def _norm(names: Sequence[str], at: int) -> Iterator[int]:
    """Positions of the norm whose rsqrt is at `at`: back to its pow, and the two products that follow."""
    begin = next((i for i in range(at - 1, at - 5, -1) if names[i] == "aten::pow"), at)
    yield from (i for i in range(begin, at + 1) if names[i] in ("aten::pow", "aten::mean", "aten::rsqrt"))
    yield from islice((i for i in range(at + 1, at + 5) if names[i] == "aten::mul"), 2)


@group("unfused-glu")
def unfused_glu(m: Measured) -> Group:
    """Kernels of gated activations composed of silu or gelu and the product that follows, and their gradient's."""
    forward = sequences(m, {"aten::silu", "aten::gelu"}, _glu)
    if isinstance(forward, Unknown) or not forward.any():
        return forward
    return forward | launched_by(m, lambda operator: operator.name in ("aten::silu_backward", "aten::gelu_backward"))


def _glu(names: Sequence[str], at: int) -> Iterator[int]:
    """Positions of the gated activation whose activation is at `at`; the gate's own product may run in between."""
    for product in range(at + 1, at + 3):
        if names[product] == "aten::mul":
            yield from (at, product)
            return


@group("unfused-loss")
def unfused_loss(m: Measured) -> Group:
    """Kernels of cross entropy that materialises the logits of 4096 or more classes, gradients and casts included."""
    loss = signatures(m, _is_of_loss)
    vocabulary = m.once(loss_vocabulary)
    if not vocabulary:
        return no_kernels(m)
    if isinstance(vocabulary, Unknown):
        return vocabulary
    casts = (
        operator
        for operator in signatures(m, {"aten::copy_", "aten::_to_copy", "aten::div", "aten::mul"}.__contains__)
        if any(len(d) >= 2 and d[-1] in vocabulary for d in operator.dims)
    )
    return launched_by(m, {*loss, *casts}.__contains__)


def loss_vocabulary(m: Measured) -> frozenset[int] | Unknown:
    """The classes of cross entropies that materialise the logits of 4096 or more; empty without any."""
    loss = signatures(m, _is_of_loss)
    if loss and not has_shapes(loss):
        return NO_SHAPES
    return frozenset(d[-1] for operator in loss for d in operator.dims if len(d) >= 2 and d[-1] >= _MIN_VOCABULARY)


def _is_of_loss(name: str) -> bool:
    return name.startswith(("aten::_log_softmax", "aten::nll_loss"))


@group("unfused-rope")
def unfused_rope(m: Measured) -> Group:
    """Kernels of rotary position embeddings that rotate halves with neg and cat."""
    return sequences(m, {"aten::neg"}, _rope)


def _rope(names: Sequence[str], at: int) -> Iterator[int]:
    """Positions of the rotation whose neg is at `at`: a product before it, then cat, a product and a sum."""
    after = tuple(names[at + 1 : at + 4])
    if after == ("aten::cat", "aten::mul", "aten::add"):
        yield from range(at - 1 if names[at - 1] == "aten::mul" else at, at + 4)
