"""The optimizer of a job without a GPU, if its operators and its Python are parts of the host step."""

from diagnose import intervals as iv
from diagnose.arrays import counted
from diagnose.attribution.causes import OPTIMIZER_OPERATORS
from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.metrics.kernels.optimizer_forms import FUSED, is_since, optimizer_name
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.vocabulary import OPS

FUSED_SINCE = (2, 4)  # the torch with fused updates on CPUs, of the same optimizers as on GPUs
_ON_GPU = Unknown("the optimizer updates on a GPU", nothing_helps("the step is the device's"))
_FORMS = {"aten::_fused_": "fused", "aten::_foreach_": "foreach"}


@metric("share", STEP, needs_gpu=False)
def cpu_optimizer_share(m: Measured) -> Value:
    """The optimizer's operators and the Python around them, in a step without a GPU."""
    return _elsewhere(m) or m.share(OPTIMIZER_OPERATORS, "optimizer-host")


@metric("text", needs_gpu=False)
def cpu_optimizer_form(m: Measured) -> Value:
    """The form of the optimizer's update without a GPU: "fused", "foreach", or "single", an operator for each
    tensor.
    """
    if elsewhere := _elsewhere(m):
        return elsewhere
    names = m.timeline.trace.names_of(*OPS)
    return next((form for prefix, form in _FORMS.items() if any(name.startswith(prefix) for name in names)), "single")


@metric("count", needs_gpu=False)
def cpu_optimizer_operators(m: Measured) -> Value:
    """Different operators that the update of a tensor calls without a GPU, each one pass over it: one of plain SGD.

    Those called at least half as often as the most called one; what is called once for all tensors is none of them.
    """
    if elsewhere := _elsewhere(m):
        return elsewhere
    trace = m.timeline.trace
    names = trace.name[trace.rows_of(*OPS) & iv.holds(m.timeline.optimizer_steps, trace.ts)]
    if not len(names):
        return Unknown("no optimizer's step with operators is in the trace", nothing_helps("nothing updates"))
    calls = counted(names)[1]
    return int((calls * 2 >= calls.max()).sum())


@metric("flag", needs_gpu=False)
def cpu_optimizer_can_fuse(m: Measured) -> Value:
    """Whether torch.optim has a fused update of this optimizer on CPUs, by the torch of the record."""
    name = m.once(optimizer_name)
    if isinstance(name, Unknown):
        return name
    return name in FUSED and is_since(FUSED_SINCE, m.record.text("versions.torch"), unknown=True)


def _elsewhere(m: Measured) -> Unknown | None:
    return _ON_GPU if m.timeline.has_gpu else m.device_unseen
