"""Kernels by family."""

import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.metrics.kernel_groups.operators import of_kind
from diagnose.metrics.kernel_groups.phases import optimizer
from diagnose.metrics.kernel_groups.registry import group
from diagnose.metrics.measured import Measured

_POINTWISE = ("elementwise", "activation", "dropout")


def _of(m: Measured, *families: str) -> Mask:
    return m.kernels & m.timeline.gpu.of_family(*families)


@group("all")
def kernels(m: Measured) -> Mask:
    """All kernels but collectives and copies."""
    return m.kernels


@group("attention")
def attention(m: Measured) -> Mask:
    """Fused attention kernels."""
    return _of(m, "attention")


@group("elementwise")
def elementwise(m: Measured) -> Mask:
    """Elementwise kernels, activations and dropout."""
    return _of(m, *_POINTWISE)


@group("fusible")
def fusible(m: Measured) -> Mask:
    """Kernels outside the optimizer that a compiler fuses."""
    return _of(m, *_POINTWISE, "norm", "softmax", "copy") & ~optimizer(m)


def compiled_kernels(m: Measured) -> tuple[Ints, Mask]:
    """All kernels, stream by stream, and which of them begin one of their own where fusible neighbours are one.

    Neighbours run on one stream in one step with no other kernel between them.
    """
    gpu, at = m.timeline.gpu, np.flatnonzero(m.kernels)
    at = at[np.argsort(gpu.stream[at], kind="stable")]  # activities are in order of start
    chosen, step = fusible(m)[at], np.searchsorted(m.timeline.windows[:, 0], gpu.start[at], side="right")
    apart = (np.diff(gpu.stream[at]) != 0) | (np.diff(step) != 0)
    return at, np.concatenate(([True], ~chosen[1:] | ~chosen[:-1] | apart))[: len(at)]


@group("copy")
def copies(m: Measured) -> Mask:
    """Kernels that copy, cast, fill, transpose or concatenate."""
    return _of(m, "copy")


@group("channel-layouts")
def channel_layouts(m: Measured) -> Mask:
    """Kernels that cuDNN or MIOpen runs around a convolution to bring the channels last, and back."""
    return m.kernels & of_kind(m, lambda kind: kind.family == "copy" and kind.sub == "channels")


@group("weight-unpacking")
def weight_unpacking(m: Measured) -> Mask:
    """Kernels that unpack weights of 4 or 8 bits for a product, as those of bitsandbytes do."""
    return m.kernels & of_kind(m, lambda kind: kind.family == "quant" and kind.sub == "weights")


@group("norm")
def norms(m: Measured) -> Mask:
    """Normalisation kernels."""
    return _of(m, "norm")
