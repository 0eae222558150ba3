"""Kernels of scaled_dot_product_attention by the path that it takes."""

from diagnose.arrays import Mask
from diagnose.metrics.kernel_groups.operators import of_kind
from diagnose.metrics.kernel_groups.registry import group
from diagnose.metrics.measured import Measured
from diagnose.timeline.kernel_names import multiplies_in

MATH = r"aten::_scaled_dot_product_attention_math"


@group("math-attention")
def math_attention(m: Measured) -> Mask:
    """Kernels of scaled_dot_product_attention's math path, forward; its gradients run as operators of their own."""
    return m.timeline.launched_under(MATH) & m.kernels


@group("efficient-attention")
def efficient_attention(m: Measured) -> Mask:
    """Memory-efficient attention kernels (CUTLASS)."""
    return m.kernels & m.timeline.gpu.tagged("efficient")


@group("flash-2-attention")
def flash_2_attention(m: Measured) -> Mask:
    """FlashAttention-2 kernels, those that PyTorch brings included."""
    return m.kernels & m.timeline.gpu.tagged("flash-2")


@group("single-attention")
def single_attention(m: Measured) -> Mask:
    """Fused attention over fp32, by kernel name: flash kernels do not support it."""
    return m.kernels & of_kind(m, lambda kind: kind.family == "attention" and multiplies_in(kind, "tf32", "fp32"))
