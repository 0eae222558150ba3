"""The kind of parallelism that the exposed collectives serve: experts, tensors, or the stages of a pipeline."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Mask
from diagnose.attribution.causes import EXPOSED, WAITING
from diagnose.facts import STEP, Unknown, Value
from diagnose.metrics.communication.gradients import NO_BACKWARD
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_SIZES
from diagnose.ranks.collectives.kinds import SEND_RECEIVE
from diagnose.ranks.collectives.messages import LEAST_BYTES, NOT_RECORDED, REDUCTIONS
from diagnose.trace.vocabulary import BACKWARD


@metric("share", STEP)
def all_to_all_share(m: Measured) -> Value:
    """Exposed all-to-all, transfer and waiting, by which experts of a mixture or parts of a sequence are exchanged."""
    return _unknown(m) or _exposed(m, m.messages.kind == "alltoall")


@metric("share", STEP)
def send_receive_share(m: Measured) -> Value:
    """Exposed sends and receives, transfer and waiting, by which the stages of a pipeline pass on their work."""
    return _unknown(m) or _exposed(m, m.messages.kind == SEND_RECEIVE)


@metric("share", STEP)
def pipeline_share(m: Measured) -> Value:
    """`send_receive_share` if that is more than half of the exposed communication: then the stages of a pipeline wait
    for each other, which their schedule requires and no late rank causes; else 0.
    """
    sent = send_receive_share(m)
    return sent if isinstance(sent, Unknown) or 2 * float(sent) > m.share(EXPOSED, *WAITING) else 0.0


@metric("share", STEP)
def forward_reduction_share(m: Measured) -> Value:
    """Exposed reductions of 1 MiB or more that the forward pass launches, transfer and waiting: of layers that are
    sharded over ranks (tensor parallelism). Gradients are reduced in the backward pass or behind it.
    """
    before = _before_backward(m)
    if isinstance(before, Unknown):
        return before
    reductions = before & np.isin(m.messages.kind, REDUCTIONS)
    if (reductions & (m.messages.bytes == NOT_RECORDED)).any():
        return NO_SIZES
    return _exposed(m, reductions & (m.messages.bytes >= LEAST_BYTES))


def _unknown(m: Measured) -> Unknown | None:
    """The reason why sends cannot be distinguished from all-to-all: kernels lack the fields of a collective."""
    sent = m.messages
    return NO_SIZES if ((sent.kind == SEND_RECEIVE) & (sent.ranks == NOT_RECORDED)).any() else None


def _exposed(m: Measured, which: Mask) -> float:
    return m.pieces_share(iv.intersect(m.attribution.pieces(EXPOSED, *WAITING), m.messages.when(which)))


def _before_backward(m: Measured) -> Mask | Unknown:
    """Mask of the messages launched outside the backward pass while some of it is to come in the same step."""
    launched, host = m.timeline.gpu.launch_start, m.timeline.steps.host
    backward = np.sort(launched[m.in_steps & m.timeline.launched_under(BACKWARD)])
    if not len(backward):
        return NO_BACKWARD
    sent = m.messages
    following = np.searchsorted(backward, sent.launched)
    last = backward[np.minimum(following, len(backward) - 1)]
    step, other = (np.searchsorted(host[:, 0], times, side="right") for times in (sent.launched, last))
    return np.asarray((following < len(backward)) & (step == other) & ~sent.in_backward)
