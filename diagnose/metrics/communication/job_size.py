"""The number of ranks and machines of the job."""

import math

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, capture_setting, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric


@metric("count", needs_gpu=False)
def world_size(m: Measured) -> Value:
    """Ranks in the job, from the trace's distributedInfo."""
    stated = m.timeline.trace.distributed
    if stated is not None and stated.world_size is not None:
        return stated.world_size
    if m.job.ranks > 1:
        return m.job.ranks
    return Unknown(
        "the trace has no distributedInfo", nothing_helps("a single process", capture_setting("torch >= 1.13"))
    )


@metric("count", needs_gpu=False)
def ranks_analyzed(m: Measured) -> Value:
    """Ranks whose traces were given."""
    return m.job.ranks


@metric("count", needs_gpu=False)
def nodes(m: Measured) -> Value:
    """Machines of the job: by the hosts of all ranks, else by Slurm, else ranks over the GPUs that the trace lists for
    this one.
    """
    if m.job.topology.nodes is not None:
        return m.job.topology.nodes
    stated = m.record.text("slurm.SLURM_NNODES") or m.record.text("slurm.SLURM_JOB_NUM_NODES")
    if stated is not None:
        return int(stated)
    size, listed = world_size(m), m.timeline.trace.metadata.get("deviceProperties")
    gpus = len(listed) if isinstance(listed, list) else 0
    if isinstance(size, Unknown):
        return size
    if int(size) <= max(gpus, 1):
        return 1
    if gpus > 1:
        return math.ceil(int(size) / gpus)
    return Unknown("the trace does not say how many GPUs a node has", DIAGNOSE_RUN)
