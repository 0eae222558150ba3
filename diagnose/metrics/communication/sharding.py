"""FSDP: what gathering the parameters costs, and what it would take in memory not to."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Mask
from diagnose.attribution.causes import EXPOSED
from diagnose.facts import STEP, Unknown, Value, capture_setting, nothing_helps
from diagnose.metrics.communication.gradients import FORWARD
from diagnose.metrics.communication.job_size import nodes
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

STATE_BYTES = 16  # of a parameter: fp32 weight and gradient, two fp32 states of Adam; less in pure half precision
_BESIDE_NS = 2_000  # a kernel that runs on for so long had not ended when the collective began
NO_GATHER = Unknown("no all-gather with its size in the counted steps", capture_setting("torch 2.3 or later"))


@metric("flag", needs_gpu=False)
def uses_fsdp(m: Measured) -> Value:
    """Whether the model is wrapped in FullyShardedDataParallel or fully_shard."""
    if m.record.get("fsdp") is not None:
        return True
    return any(n.startswith(("FSDP::", "FullyShardedDataParallel.")) for n in m.timeline.trace.names)


@metric("text", needs_gpu=False)
def fsdp_sharding(m: Measured) -> Value:
    """FSDP's sharding strategy: FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD and so on; fully_shard has none."""
    return m.recorded(m.record.text("fsdp.sharding_strategy"))


@metric("flag", needs_gpu=False)
def fsdp_prefetches_forward(m: Measured) -> Value:
    """Whether FSDP gathers the next unit's parameters before the current one computes (forward_prefetch)."""
    return m.recorded(m.record.flag("fsdp.forward_prefetch"))


def _exposed_gathers(m: Measured, which: Mask) -> float:
    return m.pieces_share(iv.intersect(m.attribution.pieces(EXPOSED), m.messages.when(which)))


def _first_gathers(m: Measured) -> Mask:
    """Mask of the messages that are the first all-gather of a step: its unit's parameters are needed by all after it,
    and the optimizer changes them before it, so that no kernel of the step can hide it.
    """
    sent, windows = m.messages, m.attribution.windows
    rows = np.flatnonzero(sent.gathers)
    step = np.searchsorted(windows[:, 0], sent.start[rows], side="right")
    first = np.zeros(len(sent.kind), bool)
    first[rows[np.append(True, step[1:] != step[:-1])[: len(rows)]]] = True
    return first & ~sent.in_backward


@metric("share", STEP)
def first_gather_share(m: Measured) -> Value:
    """Exposed first all-gather of each step: of the unit that computes first, before which nothing can hide it."""
    return _exposed_gathers(m, _first_gathers(m))


@metric("share", "the parameters that a forward pass gathers")
def first_unit_share(m: Measured) -> Value:
    """Share of the parameters in the first all-gather of a step; 1 if the whole model is one unit."""
    sent, first = m.messages, _first_gathers(m)
    if first.any() and (first == (sent.gathers & ~sent.in_backward)).all():
        return 1.0
    gathered, sizes = _gathered(m, "bytes"), sent.bytes[first & (sent.bytes > 0)]
    if isinstance(gathered, Unknown) or not len(sizes):
        return NO_GATHER
    return min(float(sizes.mean()) / gathered, 1.0)


@metric("share", STEP)
def forward_gather_share(m: Measured) -> Value:
    """Exposed all-gathers that the forward pass launches, but for the first of a step, which nothing can hide."""
    return _exposed_gathers(m, m.messages.gathers & ~m.messages.in_backward & ~_first_gathers(m))


@metric("share", STEP)
def backward_gather_share(m: Measured) -> Value:
    """Exposed all-gathers that the backward pass launches: of parameters that were freed after the forward pass."""
    return _exposed_gathers(m, m.messages.gathers & m.messages.in_backward)


@metric("share", "all-gathers after the first of a step")
def unprefetched_gather_share(m: Measured) -> Value:
    """All-gathers that begin while no kernel runs: they were not requested before the previous layer was done."""
    gpu, windows = m.timeline.gpu, m.attribution.windows
    start = m.messages.start[m.messages.gathers]
    step = np.searchsorted(windows[:, 0], start, side="right")
    later = start[1:][step[1:] == step[:-1]]
    if not len(later):
        return Unknown("no step gathers more than once", nothing_helps("there is nothing to prefetch"))
    busy = iv.intervals(gpu.start[m.kernels], gpu.end[m.kernels])
    return float((iv.coverage(busy, later - _BESIDE_NS, later + _BESIDE_NS) <= _BESIDE_NS).mean())


def _gathered(m: Measured, column: str) -> float | Unknown:
    sent = m.messages
    which = sent.gathers & ~sent.in_backward & (sent.bytes > 0)
    if not which.any():
        return NO_GATHER
    starts = m.ranges(FORWARD)[:, 0]
    host = m.timeline.steps.host
    passes = int(((starts >= host[0, 0]) & (starts < host[-1, 1])).sum()) or m.timeline.steps.count
    return float(getattr(sent, column)[which].sum()) / passes


@metric("bytes")
def gathered_parameter_bytes(m: Measured) -> Value:
    """Parameters that one forward pass gathers."""
    return _gathered(m, "bytes")


@metric("bytes")
def unsharded_state_bytes(m: Measured) -> Value:
    """Memory of weights, gradients and Adam's states that sharding saves a rank, at 16 bytes per gathered parameter."""
    elements, ranks = _gathered(m, "elements"), gather_ranks(m)
    if isinstance(elements, Unknown) or isinstance(ranks, Unknown):
        return NO_GATHER
    return STATE_BYTES * elements * (1 - 1 / float(ranks))


@metric("bytes")
def hybrid_state_bytes(m: Measured) -> Value:
    """Further memory of a rank whose node holds a whole training state (HSDP): its shard, once for each other node.

    At 16 bytes per gathered parameter; 0 on one node.
    """
    elements, ranks, count = _gathered(m, "elements"), gather_ranks(m), nodes(m)
    if isinstance(elements, Unknown) or isinstance(ranks, Unknown):
        return NO_GATHER
    if isinstance(count, Unknown):
        return count
    return STATE_BYTES * elements / float(ranks) * (float(count) - 1)


@metric("count")
def gather_ranks(m: Measured) -> Value:
    """Ranks over which parameters are sharded: the largest group of an all-gather."""
    ranks = m.messages.ranks[m.messages.gathers]
    known = ranks[ranks > 0]
    return int(np.max(known)) if len(known) else NO_GATHER


@metric("flag")
def shards_across_nodes(m: Measured) -> Value:
    """Whether parameters are gathered over more ranks than one node has."""
    ranks, count = gather_ranks(m), nodes(m)
    if isinstance(ranks, Unknown):
        return ranks
    stated = m.timeline.trace.distributed
    world_size = stated.world_size if stated else None
    if isinstance(count, Unknown) or world_size is None:
        return count if isinstance(count, Unknown) else NO_GATHER
    return int(ranks) > world_size / float(count)
