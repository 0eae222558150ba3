"""Kernels of scaled_dot_product_attention by the path that it takes."""

import re

from diagnose.arrays import Mask
from diagnose.metrics.kernel_groups.operators import named
from diagnose.metrics.kernel_groups.registry import group
from diagnose.metrics.measured import Measured

MATH = r"aten::_scaled_dot_product_attention_math"
_FLASH_2 = re.compile(r"pytorch_flash::|(^|[^_a-z])flash_(fwd|bwd)_|flash::flash_(fwd|bwd)")
_EFFICIENT = re.compile(r"fmha_cutlass")


@group("math-attention")
def math_attention(m: Measured) -> Mask:
    """Kernels of scaled_dot_product_attention's math path, forward; its gradients run as operators of their own."""
    return m.timeline.launched_under(MATH) & m.kernels


@group("efficient-attention")
def efficient_attention(m: Measured) -> Mask:
    """Memory-efficient attention kernels (CUTLASS)."""
    return m.kernels & named(m, _EFFICIENT)


@group("flash-2-attention")
def flash_2_attention(m: Measured) -> Mask:
    """FlashAttention-2 kernels, those that PyTorch brings included."""
    return m.kernels & named(m, _FLASH_2)
