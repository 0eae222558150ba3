"""Work that a fused kernel does in one pass, recognised by the operators that launched it."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diagnose.facts import Unknown
from diagnose.metrics.registry import NO_SHAPES, STEP, Measured, Value, metric
from diagnose.vocabulary import OPTIMIZER_STEP

Mask = NDArray[np.bool_]

_MANY_KERNELS, _SINGLE_SHARE = 50, 0.8
_MIN_TOKENS, _MIN_VOCABULARY = 64, 4096


@lru_cache(maxsize=65536)
def argument_sizes(raw: bytes) -> tuple[tuple[int, ...], ...]:
    """Sizes of the tensor arguments; scalars and lists of tensors are left out."""
    try:
        found: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return ()
    return tuple(tuple(d) for d in found if isinstance(d, list) and d and all(isinstance(n, int) for n in d))


def _operator_dims(m: Measured, row: int) -> tuple[tuple[int, ...], ...]:
    shape = m.timeline.trace.shape[row]
    return argument_sizes(m.timeline.trace.shapes[shape][0]) if shape >= 0 else ()


def _operator_name(m: Measured, row: int) -> str:
    return m.timeline.trace.names[m.timeline.trace.name[row]]


def _share_of(m: Measured, activities: Mask) -> float:
    return min(int(m.own_time[activities & m.kernels].sum()) / max(m.attribution.total_ns, 1), 1.0)


def _by_operator(m: Measured, wanted: set[int]) -> Mask:
    return np.isin(m.operator, np.array(sorted(wanted), np.int64))


def _operators(m: Measured) -> list[int]:
    return [int(r) for r in np.unique(m.operator[m.kernels]) if r >= 0]


def _has_shapes(m: Measured, rows: list[int]) -> bool:
    return any(m.timeline.trace.shape[r] >= 0 for r in rows)


@metric("share", STEP)
def eager_attention_share(m: Measured) -> Value:
    """Attention that materialises its scores: softmax over tokens x tokens, its products, masks, casts and dropout.

    Recognised by operators with an argument or a result of tokens x tokens, where the token counts are those of the
    softmax operators.
    """
    softmax = m.kernels & m.timeline.gpu.of_family("softmax")
    rows = _operators(m)
    owners = {_operator_name(m, int(r)) if r >= 0 else "unknown" for r in m.operator[softmax]}
    if all("log_softmax" in owner for owner in owners):
        return 0.0
    if not _has_shapes(m, rows):
        return NO_SHAPES
    tokens = {
        dims[0][-1]
        for row in rows
        if "softmax" in _operator_name(m, row)
        and (dims := _operator_dims(m, row))
        and len(dims[0]) >= 3
        and dims[0][-1] == dims[0][-2] >= _MIN_TOKENS
    }
    return _share_of(m, _by_operator(m, {r for r in rows if _touches_scores(m, r, tokens)})) if tokens else 0.0


def _touches_scores(m: Measured, row: int, tokens: set[int]) -> bool:
    dims = _operator_dims(m, row)
    if any(len(d) >= 3 and d[-1] == d[-2] and d[-1] in tokens for d in dims):
        return True
    product = "bmm" in _operator_name(m, row) and len(dims) >= 2
    return product and dims[-2][-2] == dims[-1][-1] and dims[-1][-1] in tokens


@metric("share", STEP)
def unfused_norm_share(m: Measured) -> Value:
    """RMS norms composed of pow, mean, rsqrt and mul: at least those operators around each rsqrt, without casts."""
    return _sequences(m, _norm)


def _norm(names: Sequence[str], at: int) -> Iterator[int]:
    """Positions of the norm whose rsqrt is at `at`: back to its pow, and the two products that follow."""
    if names[at] != "aten::rsqrt":
        return
    before = range(max(0, at - 4), at)
    begin = next((i for i in reversed(before) if names[i] == "aten::pow"), at)
    yield from (i for i in range(begin, at + 1) if names[i] in ("aten::pow", "aten::mean", "aten::rsqrt"))
    after = range(at + 1, min(at + 5, len(names)))
    yield from islice((i for i in after if names[i] == "aten::mul"), 2)


@metric("share", STEP)
def unfused_glu_share(m: Measured) -> Value:
    """Gated activations composed of silu or gelu and the product that follows, with the activation's gradient."""
    forward = _sequences(m, _glu)
    if isinstance(forward, Unknown) or not forward:
        return forward
    gradients = {r for r in _operators(m) if _operator_name(m, r) in ("aten::silu_backward", "aten::gelu_backward")}
    return float(forward) + _share_of(m, _by_operator(m, gradients))


def _glu(names: Sequence[str], at: int) -> Iterator[int]:
    """Positions of the gated activation whose activation is at `at`; the gate's own product may run in between."""
    if names[at] not in ("aten::silu", "aten::gelu"):
        return
    for product in range(at + 1, min(at + 3, len(names))):
        if names[product] == "aten::mul":
            yield from (at, product)
            return


def _sequences(m: Measured, members: Callable[[Sequence[str], int], Iterator[int]]) -> Value:
    """Share of the launching operators that `members` finds, in the order in which they were dispatched."""
    rows = m.operator[m.kernels]
    order = np.unique(rows[rows >= 0])
    if not len(order):
        return Unknown("kernels are not linked to operators", "capture CPU and CUDA activities together")
    order = order[np.argsort(m.timeline.trace.ts[order], kind="stable")]
    names = [_operator_name(m, int(r)) for r in order]
    found = {int(order[i]) for at in range(len(names)) for i in members(names, at)}
    return _share_of(m, _by_operator(m, found))


@metric("share", STEP)
def unfused_loss_share(m: Measured) -> Value:
    """Cross entropy that materialises the logits of 4096 or more classes: log-softmax, nll loss, gradients, casts."""
    rows = _operators(m)
    loss = {r for r in rows if _operator_name(m, r).startswith(("aten::_log_softmax", "aten::nll_loss"))}
    if not loss:
        return 0.0
    if not _has_shapes(m, list(loss)):
        return NO_SHAPES
    vocabulary = {d[-1] for r in loss for d in _operator_dims(m, r) if len(d) >= 2 and d[-1] >= _MIN_VOCABULARY}
    if not vocabulary:
        return 0.0
    casts = {
        r
        for r in rows
        if _operator_name(m, r) in ("aten::copy_", "aten::_to_copy", "aten::div", "aten::mul")
        and any(len(d) >= 2 and d[-1] in vocabulary for d in _operator_dims(m, r))
    }
    return _share_of(m, _by_operator(m, loss | casts))


def _in_optimizer(m: Measured) -> Mask:
    return m.timeline.launched_under(OPTIMIZER_STEP) & m.kernels


@metric("text")
def optimizer_kind(m: Measured) -> Value:
    """How the optimizer updates: "fused", "foreach", "single" (a loop over parameters), or "none seen"."""
    kinds = m.timeline.gpu.kinds
    fused = np.array([k.family == "optimizer" and k.sub == "fused" for k in kinds], bool)[m.timeline.gpu.kind]
    many = np.array([k.family == "optimizer" for k in kinds], bool)[m.timeline.gpu.kind]
    small = m.timeline.gpu.of_family("elementwise", "copy", "reduce", "aten_other")
    if (fused & m.kernels).any():
        return "fused"
    inside = _in_optimizer(m)
    enough = inside.sum() >= _MANY_KERNELS * m.timeline.steps.count
    if enough and (small & inside).sum() > _SINGLE_SHARE * inside.sum():
        return "single"
    return "foreach" if (many & (inside if inside.any() else m.kernels)).any() else "none seen"


@metric("text", needs_gpu=False)
def optimizer_name(m: Measured) -> Value:
    """Class of the optimizer, such as AdamW, from the record, else from its step range."""
    recorded = m.record.text("optimizer.class")
    if recorded is not None:
        return recorded.removeprefix("Accelerated")
    found = [n for n in m.timeline.trace.names if n.startswith("Optimizer.step#")]
    if not found:
        return Unknown(
            "no Optimizer.step range in the trace", "step a torch.optim optimizer; a compiled one leaves no range"
        )
    return found[0].removeprefix("Optimizer.step#").removesuffix(".step")


@metric("share", STEP)
def single_tensor_optimizer_share(m: Measured) -> Value:
    """Kernels under an optimizer that loops over parameters, and the idle time in its host code."""
    if optimizer_kind(m) != "single":
        return 0.0
    return min(_share_of(m, _in_optimizer(m)) + m.share("optimizer-host"), 1.0)
