"""Work that a fused kernel does in one pass, as shares of the step."""

import math

import numpy as np

from diagnose.arrays import distinct
from diagnose.facts import STEP, Unknown, Value, analysis_option, nothing_helps
from diagnose.formulas.fused_loss import chunked_extra_s
from diagnose.metrics.kernel_groups.attention_chains import attention_chains
from diagnose.metrics.kernel_groups.families import compiled_kernels, fusible
from diagnose.metrics.kernel_groups.fused import (
    eager_attention,
    loss_vocabulary,
    unfused_glu,
    unfused_loss,
    unfused_norm,
)
from diagnose.metrics.kernel_groups.operators import launching
from diagnose.metrics.kernel_groups.products import PRODUCTS, product_sizes
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.device import peak_flops
from diagnose.metrics.unknowns import NO_SHAPES

FASTEST = 0.73  # of the peak, what fused attention reaches at best: FlashAttention-2 on A100 (Dao 2023)
SLOWEST = 0.30  # of the peak: short texts with a mask
LEAST_OF_LOSS, MOST_OF_LOSS = (0.11, 0.75), (0.15, 1.6)  # of a pass and of the chunks; five measured jobs lie within
CAUSAL = 0.5  # of the scores
RECOMPUTED = 7 / 6  # products of a fused step over those of an unfused one: scores are computed again going backward
_NONE_FUSIBLE = Unknown("no kernel ran that a compiler fuses", nothing_helps("nothing would gain"))
_NO_UNFUSED_LOSS = Unknown("the loss writes no logits", nothing_helps("nothing would gain"))
_NO_EAGER = Unknown("attention does not write its scores", nothing_helps("nothing would gain"))


@metric("share", STEP, needs_gpu=False)
def eager_attention_share(m: Measured) -> Value:
    """Attention that materialises its scores: softmax, its products, masks, casts and dropout, forward and backward.

    Recognised by the chain of its operators: a product, a softmax and a product with its result. Without a GPU it is
    the time of these operators.
    """
    if m.device_unseen or m.timeline.has_gpu:
        return m.device_unseen or m.share_of(m.once(eager_attention))
    return m.counted_share(attention_chains(m).instants)


@metric("share", STEP)
def unfused_norm_share(m: Measured) -> Value:
    """RMS norms composed of pow, mean, rsqrt and mul, and their gradients: what is around each rsqrt, without casts."""
    return m.share_of(unfused_norm(m))


@metric("share", STEP)
def unfused_glu_share(m: Measured) -> Value:
    """Gated activations composed of silu or gelu and the product that follows, with the activation's gradient."""
    return m.share_of(unfused_glu(m))


@metric("share", STEP)
def unfused_loss_share(m: Measured) -> Value:
    """Cross entropy that materialises the logits of 4096 or more classes: log-softmax, nll loss, gradients, casts."""
    return m.share_of(unfused_loss(m))


@metric("share", "the time of the kernels that a compiler fuses")
def least_fusible_left_share(m: Measured) -> Value:
    """Share of the time of elementwise, norm, softmax and copy kernels that a compiler leaves at least: of neighbours
    on a stream in a step, with no other kernel between them, the longest one, whose bytes are still read and written.
    """
    at, begins = compiled_kernels(m)
    chosen = fusible(m)[at]
    run, ns = np.cumsum(begins)[chosen], m.own_time[at][chosen]
    if not ns.sum():
        return _NONE_FUSIBLE
    longest = np.maximum.reduceat(ns, np.flatnonzero(np.diff(run, prepend=-1)))
    return float(longest.sum() / ns.sum())


@metric("share", "the time of attention that writes its scores")
def least_fused_attention_left_share(m: Measured) -> Value:
    """Share of its time that one fused kernel leaves at least: the FLOPs of half of the scores, at the best rate
    published.
    """
    return _fused_attention(m, CAUSAL / FASTEST)


@metric("share", "the time of attention that writes its scores")
def most_fused_attention_left_share(m: Measured) -> Value:
    """Share of its time that one fused kernel leaves at most: the FLOPs of all scores, which a mask needs, at a low
    rate.
    """
    return _fused_attention(m, 1 / SLOWEST)


@metric("share", "the time of the unfused loss")
def least_fused_loss_left_share(m: Measured) -> Value:
    """The part that Liger's fused loss leaves at least: the logits' bytes once, and most of the chunks' cost."""
    return _fused_loss(m, *LEAST_OF_LOSS)


@metric("share", "the time of the unfused loss")
def most_fused_loss_left_share(m: Measured) -> Value:
    """The part that Liger's fused loss leaves at most, above 1 if its chunks cost more than the logits do now."""
    return _fused_loss(m, *MOST_OF_LOSS)


def _fused_loss(m: Measured, pass_share: float, times: float) -> Value:
    """One pass over the logits, and so many times the seconds that products in chunks take beyond those at once."""
    kernels, vocabulary = m.once(unfused_loss), m.once(loss_vocabulary)
    if isinstance(kernels, Unknown):
        return kernels
    if isinstance(vocabulary, Unknown) or not kernels.any():
        return NO_SHAPES if isinstance(vocabulary, Unknown) else _NO_UNFUSED_LOSS
    flops, memory = m.device.achievable_matrix_flops, m.device.achievable_hbm_bytes_per_s
    if flops is None or memory is None:
        return Unknown(m.device.achievable_matrix_flops_source, analysis_option("--peak-tflops"))
    heads = [
        ((sizes[-3], sizes[-2], sizes[-1]), operator.calls)
        for operator in launching(m).signatures
        if operator.name in PRODUCTS and len(sizes := product_sizes(operator)) >= 3 and sizes[-1] in vocabulary
    ]
    if not heads:
        return NO_SHAPES
    extra = sum(calls * chunked_extra_s(rows, inner, width, flops, memory) for (rows, inner, width), calls in heads)
    return pass_share + times * extra / (int(m.own_time[kernels].sum()) / 1e9)


def _fused_attention(m: Measured, times: float) -> Value:
    """Share of attention's present time that a fused kernel takes: `times` the time of its products at the peak."""
    kernels, peak = m.once(eager_attention), peak_flops(m)
    if isinstance(kernels, Unknown):
        return kernels
    if not kernels.any():
        return _NO_EAGER
    if isinstance(peak, Unknown):
        return peak
    found = launching(m)
    operators = [found.signatures[at] for at in distinct(found.of_activity[kernels]).tolist()]
    products = [(product_sizes(operator), operator.calls) for operator in operators if operator.name in PRODUCTS]
    if not products or not all(sizes for sizes, _ in products):
        return NO_SHAPES
    flops = sum(2.0 * math.prod(sizes) * calls for sizes, calls in products)
    backward = any("softmax_backward" in operator.name for operator in operators)
    return min(times * flops * (RECOMPUTED if backward else 1.0) / peak[0] / (m.own_time[kernels].sum() / 1e9), 1.0)
