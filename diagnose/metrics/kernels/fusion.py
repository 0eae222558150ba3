"""Work that a fused kernel does in one pass, as shares of the step."""

from diagnose.facts import STEP, Value
from diagnose.metrics.kernel_groups.fused import eager_attention, unfused_glu, unfused_loss, unfused_norm
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric


@metric("share", STEP)
def eager_attention_share(m: Measured) -> Value:
    """Attention that materialises its scores: softmax over tokens x tokens, its products, masks, casts and dropout.

    Recognised by operators with an argument or a result of tokens x tokens, where the token counts are those of the
    softmax operators.
    """
    return m.share_of(eager_attention(m))


@metric("share", STEP)
def unfused_norm_share(m: Measured) -> Value:
    """RMS norms composed of pow, mean, rsqrt and mul: at least those operators around each rsqrt, without casts."""
    return m.share_of(unfused_norm(m))


@metric("share", STEP)
def unfused_glu_share(m: Measured) -> Value:
    """Gated activations composed of silu or gelu and the product that follows, with the activation's gradient."""
    return m.share_of(unfused_glu(m))


@metric("share", STEP)
def unfused_loss_share(m: Measured) -> Value:
    """Cross entropy that materialises the logits of 4096 or more classes: log-softmax, nll loss, gradients, casts."""
    return m.share_of(unfused_loss(m))
