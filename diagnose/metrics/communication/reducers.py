"""What shards the model and what reduces its gradients, in whose words advice on both is given."""

import re

import numpy as np

from diagnose import intervals as iv
from diagnose.facts import Value
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.training_loop import training_loop
from diagnose.probes.frameworks import DEEPSPEED
from diagnose.trace.vocabulary import OPS

BETWEEN_REPLICAS = r"c10d::allreduce_"  # fully_shard calls it between replicas alone


@metric("flag", needs_gpu=False)
def uses_deepspeed(m: Measured) -> Value:
    """Whether DeepSpeed's engine trains the model, for itself or for a trainer."""
    if m.record.get("zero") is not None or m.record.flag("training_arguments.deepspeed"):
        return True
    if m.once(training_loop) == DEEPSPEED.name:
        return True
    return any(map(re.compile(DEEPSPEED.ranges).match, m.timeline.trace.names))


@metric("text", needs_gpu=False)
def reducer_made_by(m: Measured) -> Value:
    """The maker of what reduces gradients: DeepSpeed, else what runs the training loop."""
    return DEEPSPEED.name if m.once(uses_deepspeed) is True else m.once(training_loop)


@metric("text", needs_gpu=False)
def sharded_by(m: Measured) -> Value:
    """The wrapper that shards the model: "fully_shard", "hybrid_fully_shard" with replicas of the shards,
    "FullyShardedDataParallel", or "none".
    """
    kind, names = m.record.text("fsdp.class"), m.timeline.trace.names
    if kind == "FullyShardedDataParallel" or any(name.startswith("FullyShardedDataParallel.") for name in names):
        return "FullyShardedDataParallel"
    if kind is not None or any(name.startswith("FSDP::") for name in names):
        return "hybrid_fully_shard" if reduces_between_replicas(m) else "fully_shard"
    return "none"


def reduces_between_replicas(m: Measured) -> bool:
    """Whether fully_shard reduces gradients between replicas of the shards (HSDP) in the trace."""
    reduces = m.ranges(r"FSDP::post_backward_reduce")
    calls = m.timeline.trace.ts[m.timeline.rows_matching(BETWEEN_REPLICAS, *OPS)]
    return bool(np.any(iv.holds(reduces, calls)))
