"""Floating-point operations of the operators in a trace, once per operator however many kernels it launches.

Counted are leaf operators: mm, addmm, bmm, baddbmm, _scaled_mm, convolutions and scaled-dot-product attention, forward
and backward. 2 FLOPs for each multiply-add; attention is counted without a causal discount.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diagnose import intervals as iv
from diagnose.timeline import Timeline
from diagnose.vocabulary import OPS

Dims = list[Any]
NUMERATOR = "executed FLOPs of leaf matrix, convolution and attention operators"


@dataclass(frozen=True)
class CountedFlops:
    """FLOPs of one step (mean over the counted steps), with how much matrix-kernel time they explain.

    `covered_share` is of the time of matrix, convolution and attention kernels: what runs under a counted operator.
    """

    per_step: float
    covered_share: float
    gemm_per_step: float
    unsized: int


def count(timeline: Timeline) -> CountedFlops | None:
    """FLOPs of the counted steps; None when no counted operator carries shapes."""
    trace = timeline.trace
    rows = np.flatnonzero(trace.rows_of(*OPS) & trace.named(_counted_names(trace.names)))
    sized = rows[trace.shape[rows] >= 0]
    if not len(sized):
        return None
    outputs = _convolution_outputs(timeline, sized)
    flops = {}
    for key in {(int(trace.name[r]), int(trace.shape[r])) for r in sized}:
        flops[key] = _flops_of(trace.names[key[0]], trace.shapes[key[1]], outputs)
    each = [flops[int(trace.name[r]), int(trace.shape[r])] for r in sized]
    values = np.array([np.nan if f is None else f for f in each])
    inside = _in_steps(timeline, sized)
    count_steps = max(timeline.steps.count, 1)
    gemm = np.array([trace.names[trace.name[r]] in _GEMMS for r in sized], bool)
    return CountedFlops(
        per_step=float(np.nansum(values[inside])) / count_steps,
        covered_share=_covered(timeline, sized[~np.isnan(values)]),
        gemm_per_step=float(np.nansum(values[inside & gemm])) / count_steps,
        unsized=int(np.isnan(values).sum()) + len(rows) - len(sized),
    )


def _in_steps(timeline: Timeline, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    start = timeline.trace.ts[rows]
    host = timeline.steps.host
    at = np.searchsorted(host[:, 0], start, side="right") - 1
    return (at >= 0) & (start < host[np.maximum(at, 0), 1])


def _covered(timeline: Timeline, rows: NDArray[np.int64]) -> float:
    """Share of the matrix-kernel time whose launch lies inside a counted operator, of what has a launch."""
    gpu, trace = timeline.gpu, timeline.trace
    matrix = gpu.is_compute_bound & (gpu.launch >= 0)
    if not matrix.any():
        return 1.0
    operators = iv.intervals(trace.ts[rows], (trace.ts + trace.dur)[rows])
    launch = gpu.launch_start[matrix]
    under = iv.coverage(operators, launch, launch + 1) > 0
    time = (gpu.end - gpu.start)[matrix]
    return float(time[under].sum() / max(time.sum(), 1))


def _counted_names(names: tuple[str, ...]) -> NDArray[np.bool_]:
    return np.array([n in _FORMULAS for n in names], bool)


@lru_cache(maxsize=65536)
def _parsed(raw: bytes) -> Dims:
    try:
        found = json.loads(raw) if raw else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _flops_of(name: str, shape: tuple[bytes, bytes, bytes], outputs: dict[str, Dims]) -> float | None:
    dims, concrete = _parsed(shape[0]), _parsed(shape[2])
    try:
        return float(_FORMULAS[name](dims, concrete, outputs))
    except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError):
        return None


def _mm(dims: Dims, concrete: Dims, outputs: dict[str, Dims]) -> float:
    (m, k), (k2, n) = dims[0], dims[1]
    return 2.0 * m * _same(k, k2) * n


def _addmm(dims: Dims, concrete: Dims, outputs: dict[str, Dims]) -> float:
    return _mm(dims[1:], concrete, outputs)


def _bmm(dims: Dims, concrete: Dims, outputs: dict[str, Dims]) -> float:
    (b, m, k), (_, k2, n) = dims[0], dims[1]
    return 2.0 * b * m * _same(k, k2) * n


def _baddbmm(dims: Dims, concrete: Dims, outputs: dict[str, Dims]) -> float:
    return _bmm(dims[1:], concrete, outputs)


def _attention(matmuls: int, first: int) -> Callable[[Dims, Dims, dict[str, Dims]], float]:
    """`matmuls` products of T_q x T_k x d for each head; `first` is the argument that holds the queries."""

    def flops(dims: Dims, concrete: Dims, outputs: dict[str, Dims]) -> float:
        query, key = dims[first], dims[first + 1]
        batch, heads, tokens, width = query
        return 2.0 * matmuls * batch * heads * tokens * key[2] * width

    return flops


def _convolution(dims: Dims, concrete: Dims, outputs: dict[str, Dims]) -> float:
    x, w = dims[0], dims[1]
    out = _out_spatial(x, w, concrete)
    if out is None:
        out = outputs[_key(x, w)][2:]
    return 2.0 * x[0] * math.prod(w) * math.prod(out)


def _convolution_backward(dims: Dims, concrete: Dims, outputs: dict[str, Dims]) -> float:
    grad, w = dims[0], dims[2]
    mask = json.loads(concrete[-1].lower()) if concrete and isinstance(concrete[-1], str) and concrete[-1] else None
    wanted = sum(bool(m) for m in mask[:2]) if isinstance(mask, list) else 2
    return 2.0 * wanted * grad[0] * math.prod(w) * math.prod(grad[2:])


def _cudnn_backward(dims: Dims, concrete: Dims, outputs: dict[str, Dims]) -> float:
    return _convolution_backward([dims[1], dims[0], dims[2]], [], outputs)


def _out_spatial(x: Dims, w: Dims, concrete: Dims) -> list[int] | None:
    """Output sizes from stride, padding and dilation; None when the trace did not record them."""
    if len(concrete) < 7 or not concrete[3]:
        return None
    stride, padding, dilation = (json.loads(concrete[i]) for i in (3, 4, 5))
    if str(concrete[6]).lower() == "true":  # transposed: every input position meets the whole kernel
        return [int(size) for size in x[2:]]
    n = len(x) - 2
    wide = [list(v) * n if len(v) == 1 else v for v in (stride, padding, dilation)]
    return [(x[2 + i] + 2 * wide[1][i] - wide[2][i] * (w[2 + i] - 1) - 1) // wide[0][i] + 1 for i in range(n)]


def _convolution_outputs(timeline: Timeline, rows: NDArray[np.int64]) -> dict[str, Dims]:
    """Output dims of convolutions by (input, weight), read off the gradients of their backward operators."""
    trace = timeline.trace
    found: dict[str, Dims] = {}
    for name, shape in {(trace.names[trace.name[r]], int(trace.shape[r])) for r in rows}:
        dims = _parsed(trace.shapes[shape][0])
        if name == "aten::convolution_backward" and len(dims) > 2:
            found[_key(dims[1], dims[2])] = dims[0]
        elif name == "aten::cudnn_convolution_backward" and len(dims) > 2:
            found[_key(dims[0], dims[2])] = dims[1]
    return found


def _key(x: Dims, w: Dims) -> str:
    return f"{x}|{w}"


def _same(a: int, b: int) -> int:
    if a != b:
        raise ValueError("inner dimensions differ")
    return a


_GEMMS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm"})
_FORMULAS: dict[str, Callable[[Dims, Dims, dict[str, Dims]], float]] = {
    "aten::mm": _mm,
    "aten::_scaled_mm": _mm,
    "aten::addmm": _addmm,
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::cudnn_convolution_backward": _cudnn_backward,
    "aten::_scaled_dot_product_flash_attention": _attention(2, 0),
    "aten::_scaled_dot_product_efficient_attention": _attention(2, 0),
    "aten::_scaled_dot_product_cudnn_attention": _attention(2, 0),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention(2, 0),
    "aten::_scaled_dot_product_flash_attention_backward": _attention(5, 1),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention(5, 1),
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention(5, 1),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention(5, 1),
}
