"""Sizes of what ranks exchange: DDP's gradient buckets, and messages too small for the links' bandwidth."""

import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.facts import Unknown, Value, another_run, nothing_helps
from diagnose.formulas.size_curve import GroupLinks
from diagnose.metrics.communication.ddp import searches_unused_parameters
from diagnose.metrics.communication.job_size import nodes, world_size
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_REDUCTION, NO_SIZES
from diagnose.ranks.collectives.messages import Messages, messages_of
from diagnose.ranks.network.topology import NO_NETWORK

_WHOLE = ("int", "long", "byte")


def _buckets(sent: Messages) -> Mask:
    """Mask of the all-reduces of the backward pass that carry gradients, small ones among them."""
    reduced: Mask = (sent.kind == "allreduce") & sent.in_backward & ~np.isin(sent.dtype, _WHOLE)
    return reduced & (sent.bytes > 0)


def _by_step(m: Measured) -> list[Ints]:
    """Bytes of the gradient buckets of each counted step, in order of start."""
    sent = m.messages
    buckets = _buckets(sent)
    step = np.searchsorted(m.attribution.windows[:, 0], sent.start[buckets], side="right") - 1
    return [sent.bytes[buckets][step == number] for number in np.unique(step)]


@metric("count")
def buckets_per_step(m: Measured) -> Value:
    """All-reduces of gradients that the backward pass of a step launches: DDP's buckets."""
    steps = _by_step(m)
    return m.timeline.steps.each(sum(len(sizes) for sizes in steps)) if steps else NO_REDUCTION


@metric("bytes")
def first_bucket_bytes(m: Measured) -> Value:
    """Mean size of a step's first gradient bucket; DDP makes it small (1 MiB) so that sending begins early."""
    steps = _by_step(m)
    return float(np.mean([sizes[0] for sizes in steps])) if steps else NO_REDUCTION


@metric("flag")
def buckets_rebuilt(m: Measured) -> Value:
    """Whether DDP orders its buckets as gradients become ready, which it does after the first step.

    Seen when the trace begins before; never done when DDP searches for unused parameters.
    """
    if searches_unused_parameters(m) is True:
        return False
    steps = _by_step(m)
    if not steps:
        return NO_REDUCTION
    every = messages_of(m.timeline, np.ones(len(m.timeline.gpu), bool))
    before = every.bytes[_buckets(every) & (every.start < m.attribution.windows[0, 0])]
    if len(before) and before.sum() == steps[0].sum() and not np.array_equal(before, steps[0]):
        return True
    return Unknown(
        "the first step is not in the trace", nothing_helps("DDP rebuilds its buckets unless it is told not to")
    )


def _links(m: Measured) -> GroupLinks | Unknown:
    """The links that collectives of all ranks use."""
    count, size = nodes(m), world_size(m)
    if isinstance(count, Unknown) or isinstance(size, Unknown):
        return count if isinstance(count, Unknown) else NO_SIZES
    network = m.job.topology.node_gbs if m.job.topology.is_whole else m.settings.network_gbs
    if int(count) > 1:
        return NO_NETWORK if network is None else GroupLinks("", None, int(size), int(count), network)
    if m.gpu_info is None or m.gpu_info.nvlink_one_way_gbs is None:
        return Unknown("the GPU has no NVLink, or the table does not know it", another_run("compare with nccl-tests"))
    return GroupLinks(m.gpu_info.measured_node, m.gpu_info.nvlink_one_way_gbs, int(size))


@metric("bytes")
def half_bandwidth_bytes(m: Measured) -> Value:
    """Size of an all-reduce from which on it reaches half of the bus bandwidth that endless ones do."""
    links = _links(m)
    if isinstance(links, Unknown):
        return links
    size = links.half_bandwidth_bytes
    return Unknown("one rank exchanges nothing", nothing_helps("the job has one rank")) if size is None else size


@metric("share", "the time of collectives")
def latency_bound_share(m: Measured) -> Value:
    """Collectives too small for half of the bus bandwidth, of those whose size was recorded."""
    least, sent = half_bandwidth_bytes(m), m.messages
    if isinstance(least, Unknown):
        return least
    known = sent.bytes > 0
    lasts = (sent.end - sent.start)[known]
    if not lasts.sum():
        return NO_SIZES
    return int(lasts[sent.bytes[known] < float(least)].sum()) / int(lasts.sum())
