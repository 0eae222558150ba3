"""Work that a fused kernel does in one pass, as shares of the step, and how the optimizer updates."""

import numpy as np

from diagnose.facts import STEP, Unknown, another_run
from diagnose.metrics import groups
from diagnose.metrics.groups import Group
from diagnose.metrics.registry import Measured, Value, metric

_MANY_KERNELS, _SINGLE_SHARE = 50, 0.8


def share_of(m: Measured, activities: Group) -> float | Unknown:
    """Time of a group of kernels, of the counted steps."""
    if isinstance(activities, Unknown):
        return activities
    return min(int(m.own_time[activities].sum()) / max(m.attribution.total_ns, 1), 1.0)


@metric("share", STEP)
def eager_attention_share(m: Measured) -> Value:
    """Attention that materialises its scores: softmax over tokens x tokens, its products, masks, casts and dropout.

    Recognised by operators with an argument or a result of tokens x tokens, where the token counts are those of the
    softmax operators.
    """
    return share_of(m, groups.eager_attention(m))


@metric("share", STEP)
def unfused_norm_share(m: Measured) -> Value:
    """RMS norms composed of pow, mean, rsqrt and mul: at least those operators around each rsqrt, without casts."""
    return share_of(m, groups.unfused_norm(m))


@metric("share", STEP)
def unfused_glu_share(m: Measured) -> Value:
    """Gated activations composed of silu or gelu and the product that follows, with the activation's gradient."""
    return share_of(m, groups.unfused_glu(m))


@metric("share", STEP)
def unfused_loss_share(m: Measured) -> Value:
    """Cross entropy that materialises the logits of 4096 or more classes: log-softmax, nll loss, gradients, casts."""
    return share_of(m, groups.unfused_loss(m))


@metric("text")
def optimizer_kind(m: Measured) -> Value:
    """How the optimizer updates: "fused", "foreach", "single" (a loop over parameters), or "none seen"."""
    kinds = m.timeline.gpu.kinds
    fused = np.array([k.family == "optimizer" and k.sub == "fused" for k in kinds], bool)[m.timeline.gpu.kind]
    many = np.array([k.family == "optimizer" for k in kinds], bool)[m.timeline.gpu.kind]
    small = m.timeline.gpu.of_family("elementwise", "copy", "reduce", "aten_other")
    if (fused & m.kernels).any():
        return "fused"
    inside = groups.optimizer(m)
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
            "no Optimizer.step range in the trace",
            another_run("step a torch.optim optimizer; a compiled one leaves no range"),
        )
    return found[0].removeprefix("Optimizer.step#").removesuffix(".step")


@metric("share", STEP)
def single_tensor_optimizer_share(m: Measured) -> Value:
    """Kernels under an optimizer that loops over parameters, and the idle time in its host code."""
    if optimizer_kind(m) != "single":
        return 0.0
    kernels = int(m.own_time[groups.optimizer(m)].sum()) / max(m.attribution.total_ns, 1)
    return min(kernels + m.share("optimizer-host"), 1.0)
