"""Attention: which kernels it takes, and what keeps it from its flash kernels."""

from collections import Counter

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Mask
from diagnose.attribution.operator_kinds import kind_of
from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.formulas.supported_kernels import flash_blocked
from diagnose.metrics.kernel_groups.attention_chains import attention_chains
from diagnose.metrics.kernel_groups.fused import unfused_rope
from diagnose.metrics.kernel_groups.operators import of_kind
from diagnose.metrics.kernel_groups.registry import group
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.device import compute_capability
from diagnose.metrics.unknowns import NO_SHAPES
from diagnose.roofline.calls import OperatorCall, call_of
from diagnose.roofline.owners import distinct
from diagnose.timeline.kernel_names import multiplies_in
from diagnose.trace.vocabulary import OPS

_EFFICIENT = "aten::_scaled_dot_product_efficient_attention"
_MASK_ARGUMENT = 3


@metric("text", needs_gpu=False)
def attention_implementation(m: Measured) -> Value:
    """The model's attention: eager, sdpa, flash_attention_2 and so on."""
    return m.recorded(m.record.text("model.attn_implementation"))


@metric("flag", needs_gpu=False)
def flash_attention_installed(m: Measured) -> Value:
    """Whether the flash-attn package is installed in the job's environment."""
    if not isinstance(m.record.get("versions"), dict):
        return m.unrecorded
    return m.record.text("versions.flash_attn") is not None


@metric("share", STEP)
def math_attention_share(m: Measured) -> Value:
    """The math path of scaled_dot_product_attention, which writes the scores to memory; forward pass only."""
    return m.share_of(math_attention(m))


@metric("share", STEP, needs_gpu=False)
def attention_dropout_share(m: Measured) -> Value:
    """Random numbers that attention draws without a GPU to drop some of its scores, where it writes them."""
    rows = np.flatnonzero(m.timeline.trace.named_in(_draws, *OPS))
    drawn = rows[iv.holds(attention_chains(m).instants, m.timeline.trace.ts[rows])]
    return m.running_share(drawn)


def _draws(name: str) -> bool:
    kind = kind_of(name)
    return kind is not None and kind.cause == "operator-random"


@metric("share", STEP)
def efficient_attention_share(m: Measured) -> Value:
    """Memory-efficient attention kernels (CUTLASS), which scaled_dot_product_attention uses if flash cannot run."""
    return m.share_of(efficient_attention(m))


@metric("share", STEP)
def flash_2_share(m: Measured) -> Value:
    """FlashAttention-2 kernels, those that PyTorch brings included."""
    return m.share_of(flash_2_attention(m))


@metric("share", STEP)
def unfused_rope_share(m: Measured) -> Value:
    """Rotary position embeddings composed of mul, neg, cat, mul and add, forward pass only."""
    return m.share_of(unfused_rope(m))


@metric("text")
def flash_blocked_by(m: Measured) -> Value:
    """The reason why attention is off flash kernels: "old GPU", "fp32", "head size", "mask" (an explicit one), or
    "nothing".

    Read from the arguments of most calls that take another path.
    """
    calls = _calls(m)
    if not calls:
        return Unknown(
            "no call of attention off the flash path", nothing_helps("flash kernels run, or no fused attention")
        )
    capability = compute_capability(m)
    if not isinstance(capability, Unknown) and (blocked := flash_blocked(float(capability))):
        return blocked
    sized = [(call, times) for call, times in calls if call.dims]
    if not sized:
        return NO_SHAPES
    reasons = Counter[str]()
    for call, times in sized:
        reasons[_reason(call)] += times
    return max(sorted(reasons), key=reasons.__getitem__)


def _calls(m: Measured) -> list[tuple[OperatorCall, int]]:
    """The distinct calls off the flash path, and how often each is made."""
    trace = m.timeline.trace
    rows = np.flatnonzero(trace.named_in(lambda name: name == _EFFICIENT or name.startswith(MATH), *OPS))
    pairs, which = distinct(trace.name[rows], trace.shape[rows])
    calls = [call_of(trace.names[n], trace.shapes[s] if s >= 0 else (b"", b"", b"")) for n, s in pairs.T.tolist()]
    return list(zip(calls, np.bincount(which).tolist(), strict=True))


def _reason(call: OperatorCall) -> str:
    sizes = call.sizes(0)
    if blocked := flash_blocked(None, call.precision, sizes[-1] if sizes else None):
        return blocked
    return "mask" if len(call.dims) > _MASK_ARGUMENT and call.dims[_MASK_ARGUMENT] else "nothing"


# Kernels of scaled_dot_product_attention by the path that it takes.

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
