"""Gradients of the backward pass that no optimizer steps, by the record and by the nodes that accumulate them."""

from diagnose.facts import STEP, Value
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.operator_work import elements_per_step
from diagnose.metrics.registry import metric
from diagnose.trace.vocabulary import ACCUMULATES, ANNOTATIONS, BACKWARD, OPS

NEARLY_ALL = 0.9  # of the gradients that are held are computed in each step, else they are of before


@metric("share", "the elements of all gradients", needs_gpu=False)
def unstepped_gradient_share(m: Measured) -> Value:
    """Gradients that modules of the process hold and no optimizer steps, if each step computes as many beside those of
    the optimizer.
    """
    unstepped, stepped = (m.record.number(f"optimizer.{name}") for name in ("unstepped_gradients", "parameters"))
    if unstepped is None or not stepped:
        return m.unrecorded
    computed = _computed(m)
    is_computed = computed is None or computed >= NEARLY_ALL * (unstepped + stepped)
    return unstepped / (unstepped + stepped) if is_computed else 0.0


@metric("share", STEP, needs_gpu=False)
def backward_share(m: Measured) -> Value:
    """The backward pass: kernels that it launches or, without a GPU, its time on the host."""
    if unseen := m.device_unseen:
        return unseen
    if m.timeline.has_gpu:
        return m.share_of(m.timeline.launched_under(BACKWARD) & m.kernels)
    return m.running_share(m.timeline.rows_matching(BACKWARD, *ANNOTATIONS))


def _computed(m: Measured) -> float | None:
    """Elements of the gradients that are accumulated in a step; None if the trace has no sizes of them."""
    return elements_per_step(m, m.timeline.rows_matching(ACCUMULATES, *OPS)) or None
