"""FSDP and ZeRO: what gathering the parameters costs, and what it would take in memory not to."""

import re

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Mask
from diagnose.attribution.causes import EXPOSED, WAITING
from diagnose.facts import STEP, Unknown, Value, capture_setting, nothing_helps
from diagnose.metrics.communication.gradients import FORWARD
from diagnose.metrics.communication.job_size import nodes, world_size
from diagnose.metrics.communication.reducers import reduced_by_engine, sharded_by
from diagnose.metrics.communication.zero import offloads_optimizer, zero_stage
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.setup import accumulation_steps
from diagnose.probes.protocol import FORWARD_RANGE
from diagnose.trace.vocabulary import OPTIMIZER_STEP

STATE_BYTES = 16  # of a parameter: fp32 weight and gradient, two fp32 states of Adam; less in pure half precision
DIVIDED_BYTES = {0: 0, 1: 12, 2: 14, 3: STATE_BYTES}  # of these, by ZeRO stage: fp32 states, 16-bit gradient and weight
_BESIDE_NS = 2_000  # a kernel that runs on for so long had not ended when the collective began
_GATHERS_ON_HOST = r"(gloo|mpi|ucc):_?all_?gather"
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
    starts = m.ranges(rf"{FORWARD}|{re.escape(FORWARD_RANGE)}")[:, 0]
    host = m.timeline.steps.host
    passes = int(((starts >= host[0, 0]) & (starts < host[-1, 1])).sum()) or m.timeline.steps.count
    return float(getattr(sent, column)[which].sum()) / passes


@metric("bytes")
def gathered_parameter_bytes(m: Measured) -> Value:
    """Parameters that one forward pass gathers."""
    return _gathered(m, "bytes")


@metric("flag", needs_gpu=False)
def shards_parameters(m: Measured) -> Value:
    """Whether each rank keeps a part of the parameters and gathers the rest: FSDP, or DeepSpeed's ZeRO-3."""
    return _divides(m, 3)


@metric("flag", needs_gpu=False)
def shards_gradients(m: Measured) -> Value:
    """Whether each rank keeps a part of the gradients: FSDP, or DeepSpeed's ZeRO-2 or ZeRO-3."""
    return _divides(m, 2)


def _divides(m: Measured, stage: int) -> Value:
    if uses_fsdp(m) or not reduced_by_engine(m):
        return uses_fsdp(m)
    divided = zero_stage(m)
    return divided if isinstance(divided, Unknown) else int(divided) >= stage


@metric("share", STEP, needs_gpu=False)
def parameter_gather_share(m: Measured) -> Value:
    """Exposed communication that gathers parameters, outside the optimizer's step."""
    if m.device_unseen:
        return m.device_unseen
    if m.timeline.has_gpu:
        return _exposed_gathers(m, m.messages.gathers)
    gathers = iv.subtract(m.ranges(_GATHERS_ON_HOST), m.ranges(OPTIMIZER_STEP))
    return m.pieces_share(iv.intersect(m.attribution.pieces(EXPOSED, *WAITING), gathers))


@metric("bytes", needs_gpu=False)
def unsharded_state_bytes(m: Measured) -> Value:
    """Further memory of a rank that holds the whole training state: at 16 bytes per parameter what is divided or
    offloaded of weights, gradients and Adam's states.
    """
    elements, ranks = _divided_elements(m), gather_ranks(m)
    ranks = world_size(m) if isinstance(ranks, Unknown) else ranks
    if isinstance(elements, Unknown) or isinstance(ranks, Unknown):
        return NO_GATHER
    stage = 3 if uses_fsdp(m) is True else zero_stage(m)
    if isinstance(stage, Unknown):
        return stage
    offloaded = DIVIDED_BYTES[1] if m.timeline.has_gpu and offloads_optimizer(m) is True else 0
    return elements * (DIVIDED_BYTES[int(stage)] * (1 - 1 / float(ranks)) + offloaded / float(ranks))


def _divided_elements(m: Measured) -> float | Unknown:
    """Parameters of the whole model: those gathered, else those recorded where the record counts over all shards."""
    gathered = _gathered(m, "elements") if shards_parameters(m) is True else NO_GATHER
    told = m.record.number("model.parameters")
    counts_all = reduced_by_engine(m) or sharded_by(m) in ("fully_shard", "hybrid_fully_shard")
    return told if isinstance(gathered, Unknown) and counts_all and told else gathered


@metric("factor", needs_gpu=False)
def unsharded_traffic_factor(m: Measured) -> Value:
    """Bytes that replicas exchange over those of the sharded job, by the way it shards.

    Two thirds for parameters gathered twice. ZeRO-2 and ZeRO-3 send in each micro-step what replicas send once.
    """
    if uses_fsdp(m) or not reduced_by_engine(m):
        return 2 / 3
    stage, steps = zero_stage(m), accumulation_steps(m)
    passes = 1.0 if isinstance(steps, Unknown) else max(float(steps), 1.0)
    if isinstance(stage, Unknown):
        return stage
    return {2: 2 / (passes + 1), 3: 2 / (3 * passes)}.get(int(stage), 1.0)


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
