"""Groups of kernels that a fused kernel does in one pass, recognised by the operators that launched them."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

import numpy as np

from diagnose.arrays import Mask
from diagnose.facts import Unknown, another_run
from diagnose.metrics.registry import NO_SHAPES, Measured
from diagnose.timeline.kernel_names import COMPUTE_FAMILIES, Kind
from diagnose.trace.arguments import listed
from diagnose.trace.vocabulary import OPTIMIZER_STEP

Group = Mask | Unknown
COPY_BACK = r"torch\.distributed\.ddp\.reducer::copy_bucket_to_grad"

_MIN_TOKENS, _MIN_VOCABULARY = 64, 4096
NOT_LINKED = Unknown("kernels are not linked to operators", another_run("capture CPU and CUDA activities together"))


@lru_cache(maxsize=65536)
def argument_sizes(raw: bytes) -> tuple[tuple[int, ...], ...]:
    """Sizes of the tensor arguments; scalars and lists of tensors are left out."""
    return tuple(tuple(d) for d in listed(raw) if d and isinstance(d[0], int))


def operator_dims(m: Measured, row: int) -> tuple[tuple[int, ...], ...]:
    """Sizes of an operator's tensor arguments; empty where they are not recorded."""
    shape = m.timeline.trace.shape[row]
    return argument_sizes(m.timeline.trace.shapes[shape][0]) if shape >= 0 else ()


def operator_name(m: Measured, row: int) -> str:
    """An operator's name."""
    return m.timeline.trace.names[m.timeline.trace.name[row]]


def _nothing(m: Measured) -> Mask:
    return np.zeros(len(m.timeline.gpu), bool)


def by_operator(m: Measured, wanted: set[int]) -> Mask:
    """Kernels in the counted steps that the operators in the rows `wanted` launched."""
    return np.isin(m.operator, np.array(sorted(wanted), np.int64)) & m.kernels


def operators(m: Measured, of_name: Callable[[str], bool] | None = None) -> list[int]:
    """Rows of the operators that launched kernels in the counted steps, those `of_name` where that is given."""
    if of_name is None:
        return m.operators.tolist()
    wanted = np.array([of_name(name) for name in m.timeline.trace.names], bool)
    return m.operators[wanted[m.timeline.trace.name[m.operators]]].tolist()


def has_shapes(m: Measured, rows: list[int]) -> bool:
    """Whether any of the operators carries the sizes of its arguments."""
    return bool((m.timeline.trace.shape[rows] >= 0).any()) if rows else False


def eager_attention(m: Measured) -> Group:
    """Kernels of attention that materialises its scores: softmax, its products, masks, casts and dropout.

    Recognised by operators with an argument or a result of tokens x tokens, where the token counts are those of the
    softmax operators.
    """
    softmax = m.kernels & m.timeline.gpu.of_family("softmax")
    rows = operators(m)
    owners = {operator_name(m, int(r)) if r >= 0 else "unknown" for r in np.unique(m.operator[softmax])}
    if all("log_softmax" in owner for owner in owners):
        return _nothing(m)
    if not has_shapes(m, rows):
        return NO_SHAPES
    tokens = {
        dims[0][-1]
        for row in operators(m, lambda name: "softmax" in name)
        if (dims := operator_dims(m, row)) and len(dims[0]) >= 3 and dims[0][-1] == dims[0][-2] >= _MIN_TOKENS
    }
    return by_operator(m, {r for r in rows if _touches_scores(m, r, tokens)}) if tokens else _nothing(m)


def _touches_scores(m: Measured, row: int, tokens: set[int]) -> bool:
    dims = operator_dims(m, row)
    if any(len(d) >= 3 and d[-1] == d[-2] and d[-1] in tokens for d in dims):
        return True
    product = "bmm" in operator_name(m, row) and len(dims) >= 2
    return product and dims[-2][-2:-1] == dims[-1][-1:] and dims[-1][-1] in tokens


def unfused_norm(m: Measured) -> Group:
    """Kernels of RMS norms composed of pow, mean, rsqrt and mul, without casts."""
    return sequences(m, {"aten::rsqrt"}, _norm)


def _norm(names: Sequence[str], at: int) -> Iterator[int]:
    """Positions of the norm whose rsqrt is at `at`: back to its pow, and the two products that follow."""
    before = range(max(0, at - 4), at)
    begin = next((i for i in reversed(before) if names[i] == "aten::pow"), at)
    yield from (i for i in range(begin, at + 1) if names[i] in ("aten::pow", "aten::mean", "aten::rsqrt"))
    after = range(at + 1, min(at + 5, len(names)))
    yield from islice((i for i in after if names[i] == "aten::mul"), 2)


def unfused_glu(m: Measured) -> Group:
    """Kernels of gated activations composed of silu or gelu and the product that follows, and their gradient's."""
    forward = sequences(m, {"aten::silu", "aten::gelu"}, _glu)
    if isinstance(forward, Unknown) or not forward.any():
        return forward
    gradients = operators(m, {"aten::silu_backward", "aten::gelu_backward"}.__contains__)
    return forward | by_operator(m, {*gradients})


def _glu(names: Sequence[str], at: int) -> Iterator[int]:
    """Positions of the gated activation whose activation is at `at`; the gate's own product may run in between."""
    for product in range(at + 1, min(at + 3, len(names))):
        if names[product] == "aten::mul":
            yield from (at, product)
            return


def sequences(m: Measured, anchors: set[str], members: Callable[[Sequence[str], int], Iterator[int]]) -> Group:
    """Kernels of the launching operators that `members` finds around each anchor, in the order of their dispatch."""
    trace = m.timeline.trace
    if not len(m.operators):
        return NOT_LINKED
    order = m.operators[np.argsort(trace.ts[m.operators], kind="stable")]
    is_anchor = np.array([name in anchors for name in trace.names], bool)[trace.name[order]]
    if not is_anchor.any():
        return _nothing(m)
    names = [trace.names[name] for name in trace.name[order].tolist()]
    return by_operator(m, {int(order[i]) for at in np.flatnonzero(is_anchor).tolist() for i in members(names, at)})


def unfused_loss(m: Measured) -> Group:
    """Kernels of cross entropy that materialises the logits of 4096 or more classes, gradients and casts included."""
    loss = {*operators(m, lambda name: name.startswith(("aten::_log_softmax", "aten::nll_loss")))}
    if not loss:
        return _nothing(m)
    if not has_shapes(m, list(loss)):
        return NO_SHAPES
    vocabulary = {d[-1] for r in loss for d in operator_dims(m, r) if len(d) >= 2 and d[-1] >= _MIN_VOCABULARY}
    if not vocabulary:
        return _nothing(m)
    casts = {
        r
        for r in operators(m, {"aten::copy_", "aten::_to_copy", "aten::div", "aten::mul"}.__contains__)
        if any(len(d) >= 2 and d[-1] in vocabulary for d in operator_dims(m, r))
    }
    return by_operator(m, loss | casts)


def optimizer(m: Measured) -> Mask:
    """Kernels launched by the optimizer's step."""
    return m.timeline.launched_under(OPTIMIZER_STEP) & m.kernels


def gradient_copies(m: Measured) -> Mask:
    """Copies, by kernel or copy engine, with which DDP takes reduced gradients out of its buckets."""
    return m.timeline.launched_under(COPY_BACK) & m.in_steps & ~m.timeline.gpu.is_communication


def optimizer_apart(m: Measured) -> Mask:
    """All other kernels."""
    return m.kernels & ~optimizer(m)


def fp32_products(m: Measured) -> Mask:
    """Matrix products and convolutions in fp32 without tensor cores, told by kernel name."""
    return m.kernels & of_kind(m, lambda kind: kind.dtype == "fp32" and kind.tensor_core is False)


def _matrix_in(*precisions: str) -> Callable[[Measured], Mask]:
    def group(m: Measured) -> Mask:
        return m.kernels & of_kind(m, lambda kind: kind.family in COMPUTE_FAMILIES and kind.dtype in precisions)

    return group


def _family(*families: str) -> Callable[[Measured], Mask]:
    return lambda m: m.kernels & m.timeline.gpu.of_family(*families)


def of_kind(m: Measured, belongs: Callable[[Kind], bool]) -> Mask:
    """Mask of the activities whose kind belongs."""
    if not len(m.timeline.gpu):
        return np.zeros(0, bool)
    return np.array([belongs(kind) for kind in m.timeline.gpu.kinds], bool)[m.timeline.gpu.kind]


NAMES: dict[str, Callable[[Measured], Group]] = {
    "all": lambda m: m.kernels,
    "eager-attention": eager_attention,
    "unfused-norm": unfused_norm,
    "unfused-glu": unfused_glu,
    "unfused-loss": unfused_loss,
    "optimizer": optimizer,
    "not-optimizer": optimizer_apart,
    "fp32-products": fp32_products,
    "tf32-products": _matrix_in("tf32"),
    "half-products": _matrix_in("bf16", "fp16"),
    "matrix": _family(*COMPUTE_FAMILIES),
    "attention": _family("attention"),
    "elementwise": _family("elementwise", "activation", "dropout"),
    "fusible": lambda m: _family("elementwise", "activation", "dropout", "norm", "softmax", "copy")(m) & ~optimizer(m),
    "copy": _family("copy"),
    "norm": _family("norm"),
    "gradient-copies": gradient_copies,
}
