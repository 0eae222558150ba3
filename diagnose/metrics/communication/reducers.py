"""The framework that shards the model and the one that reduces its gradients: advice is in their words."""

import re

import numpy as np

from diagnose import intervals as iv
from diagnose.facts import Value
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.training_loop import training_loop
from diagnose.probes.frameworks import FRAMEWORKS, Framework
from diagnose.trace.vocabulary import OPS

BETWEEN_REPLICAS = r"c10d::allreduce_"  # fully_shard calls it between replicas alone


@metric("flag", needs_gpu=False)
def reduced_by_engine(m: Measured) -> Value:
    """Whether the engine of a framework reduces the gradients, for its own loop or for a trainer's."""
    return m.once(_engine) is not None


@metric("text", needs_gpu=False)
def reducer_made_by(m: Measured) -> Value:
    """The maker of what reduces gradients: a framework with an engine of its own, else what runs the training loop."""
    engine = m.once(_engine)
    return m.once(training_loop) if engine is None else engine.name


def _engine(m: Measured) -> Framework | None:
    names, loop = m.timeline.trace.names, m.once(training_loop)
    for each in (framework for framework in FRAMEWORKS if framework.reduces_gradients):
        asked = m.record.get("zero") is not None or m.record.flag(f"training_arguments.{each.key}")
        if asked or loop == each.name or any(map(re.compile(each.ranges).match, names)):
            return each
    return None


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
