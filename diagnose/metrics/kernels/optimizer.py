"""The form of the optimizer, and the cost of clipping and updating."""

import numpy as np

from diagnose.facts import STEP, Unknown, Value, another_run
from diagnose.metrics.kernel_groups.phases import optimizer
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.vocabulary import OPTIMIZER_STEP

_NO_STEPS = Unknown("no range marks the optimizer's step", another_run("capture CPU activities of an eager model"))
_MANY_KERNELS, _SINGLE_SHARE = 50, 0.8


@metric("text")
def optimizer_kind(m: Measured) -> Value:
    """The form of the optimizer's update: "fused", "foreach", "single" (a loop over parameters), or "none seen"."""
    kinds = m.timeline.gpu.kinds
    fused = np.array([k.family == "optimizer" and k.sub == "fused" for k in kinds], bool)[m.timeline.gpu.kind]
    many = np.array([k.family == "optimizer" for k in kinds], bool)[m.timeline.gpu.kind]
    small = m.timeline.gpu.of_family("elementwise", "copy", "reduce", "aten_other")
    if (fused & m.kernels).any():
        return "fused"
    inside = optimizer(m)
    enough = inside.sum() >= _MANY_KERNELS * m.timeline.steps.count
    if enough and (small & inside).sum() > _SINGLE_SHARE * inside.sum():
        return "single"
    return "foreach" if (many & (inside if inside.any() else m.kernels)).any() else "none seen"


@metric("flag")
def updates_on_host(m: Measured) -> Value:
    """Whether the optimizer's steps launch no kernel, so that its states and its update are on the host."""
    if not len(m.ranges(OPTIMIZER_STEP)):
        return _NO_STEPS
    return not (m.timeline.launched_by_optimizer & m.kernels).any()


@metric("share", STEP)
def single_tensor_optimizer_share(m: Measured) -> Value:
    """Kernels under an optimizer that loops over parameters, and the idle time in its host code."""
    if m.once(optimizer_kind) != "single":
        return 0.0
    kernels = m.attribution.share(m.own_time[optimizer(m)].sum())
    return min(kernels + m.share("optimizer-host"), 1.0)


@metric("share", STEP)
def clip_share(m: Measured) -> Value:
    """Kernels that clip gradients; 0 if no range marks them."""
    return m.share("clip")
