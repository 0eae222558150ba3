"""The time that collectives take, the host's work around them included; gains of fewer of them are computed from it.

A collective that is not made saves its wrapper's hooks, too: Python, calls, copies into flat buffers and out of them.
They are known by the ranges that the wrapper opens around them, and by the calls.
"""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask
from diagnose.attribution.causes import EXPOSED, ON_A_CORE, WAITING
from diagnose.facts import STEP, Unknown, Value
from diagnose.intervals import Intervals
from diagnose.metrics.communication.micro_steps import GATHER_CALL, REDUCTION_CALL, forward_passes
from diagnose.metrics.communication.reducers import BETWEEN_REPLICAS, reduces_between_replicas
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.probes.protocol import BACKWARD_RANGE
from diagnose.ranks.collectives.messages import REDUCTIONS
from diagnose.timeline.kernel_names import collective_kind
from diagnose.trace.vocabulary import ANNOTATIONS, BACKWARD, COMMUNICATION_RANGES, OPS

_CALL = r"c10d::"
_PACKS_GRADIENTS = (
    r"FSDP::post_backward_(reduce|rs_wait)|torch\.distributed\.ddp\.reducer::copy_|torch::distributed::reducer::"
)
_REDUCING_HOOKS = r"FullyShardedDataParallel\._post_backward_hook"
_GATHERS_AHEAD = r"FullyShardedDataParallel\._post_backward_prefetch"
_PACKS_PARAMETERS = r"FSDP::all_gather"
_GATHERING_HOOKS = r"FSDP::(pre|post)_forward|FullyShardedDataParallel\._(pre|post)_forward"


class CollectiveWork(msgspec.Struct, frozen=True):
    """When collectives of a kind take time.

    Attributes:
        packs: the host packs what is sent, calls the collective, and unpacks it.
        hooks: the same with all hooks of the wrapper around it, of which a part may stay without it.
        sent: they are in flight, on the device or, without a GPU, by threads of the host.
        alone: the same, with no other collective in flight.
    """

    packs: Intervals
    hooks: Intervals
    sent: Intervals
    alone: Intervals


Finder = TypeVar("Finder", bound=Callable[[Measured], CollectiveWork])
WORKS: dict[str, Callable[[Measured], CollectiveWork]] = {}


def work(name: str) -> Callable[[Finder], Finder]:
    """Register a function that finds the work which a rule's `[whatif.collectives]` calls by this name."""

    def register(function: Finder) -> Finder:
        WORKS[name] = function
        return function

    return register


@work("reductions")
def reductions(m: Measured) -> CollectiveWork:
    """Reductions of gradients; if replicas hold shards, those between replicas: shards may be reduced as often."""
    sends = m.messages.reduces_gradients
    if reduces_between_replicas(m):
        within, between = m.ranges("FSDP::post_backward_reduce"), sends & (m.messages.kind == "allreduce")
        return _work(m, _calls(m, BETWEEN_REPLICAS, within), iv.EMPTY, iv.EMPTY, between, REDUCTIONS)
    packs, hooks = m.ranges(_PACKS_GRADIENTS), iv.subtract(m.ranges(_REDUCING_HOOKS), m.ranges(_GATHERS_AHEAD))
    within = iv.union(m.ranges(rf"{BACKWARD}|{re.escape(BACKWARD_RANGE)}"), packs, hooks)
    return _work(m, _calls(m, REDUCTION_CALL, within), packs, hooks, sends, REDUCTIONS)


@work("needless-gathers")
def needless_gathers(m: Measured) -> CollectiveWork:
    """All-gathers of parameters in forward passes without gradients."""
    passes = m.once(forward_passes)
    if isinstance(passes, Unknown):
        return CollectiveWork(iv.EMPTY, iv.EMPTY, iv.EMPTY, iv.EMPTY)
    within = iv.intervals(passes.start[passes.in_vain], passes.until[passes.in_vain])
    packs, hooks = (iv.intersect(m.ranges(ranges), within) for ranges in (_PACKS_PARAMETERS, _GATHERING_HOOKS))
    sends = m.messages.gathers & iv.holds(within, m.messages.launched)
    return _work(m, _calls(m, GATHER_CALL, within), packs, hooks, sends, ("allgather",))


def _work(
    m: Measured, calls: Ints, packs: Intervals, hooks: Intervals, sends: Mask, kinds: tuple[str, ...]
) -> CollectiveWork:
    """The work of the calls, rows of the trace, with the instants of the wrapper's own and its hooks' ranges."""
    trace = m.timeline.trace
    packs = iv.union(packs, iv.intervals(trace.ts[calls], trace.ends(calls)))
    if m.timeline.has_gpu:
        sent, others = m.messages.when(sends), m.messages.when(~sends)
    else:
        sent, others = _in_flight(m, calls, kinds)
    return CollectiveWork(packs, iv.union(packs, hooks), sent, iv.subtract(sent, others))


def _calls(m: Measured, pattern: str, within: Intervals) -> Ints:
    """Rows of the calls that begin in the instants."""
    rows = m.timeline.rows_matching(pattern, *OPS)
    return rows[iv.holds(within, m.timeline.trace.ts[rows])]


def _in_flight(m: Measured, calls: Ints, kinds: tuple[str, ...]) -> tuple[Intervals, Intervals]:
    """The instants at which threads of the host send for these calls, and for others.

    A thread takes up the calls in order, so that what it sends is of the last call before. If the trace has no calls,
    the kind of what is sent decides.
    """
    trace = m.timeline.trace
    rows = m.timeline.rows_matching(COMMUNICATION_RANGES, *ANNOTATIONS)
    made = m.timeline.rows_matching(_CALL, *OPS)
    if len(made):
        made = made[np.argsort(trace.ts[made], kind="stable")]
        last = np.searchsorted(trace.ts[made], trace.ts[rows], side="right") - 1
        own = (last >= 0) & np.isin(made[np.maximum(last, 0)], calls)
    else:
        own = np.isin([collective_kind(trace.names[name]) for name in trace.name[rows].tolist()], kinds)
    return tuple(iv.intervals(trace.ts[of], trace.ends(of)) for of in (rows[own], rows[~own]))  # type: ignore[return-value]


def taken(m: Measured, of: CollectiveWork) -> Intervals:
    """The instants of the counted steps at which nothing runs but the work's transfer, or the host packs for it."""
    on_host = m.attribution.pieces(*ON_A_CORE) if m.timeline.has_gpu else m.attribution.windows
    sent = iv.intersect(m.attribution.pieces(EXPOSED, *WAITING), of.sent)
    return iv.union(sent, iv.intersect(on_host, of.packs))


@metric("share", STEP, needs_gpu=False)
def gradient_reduction_share(m: Measured) -> Value:
    """Exposed reductions of gradients in the backward passes, and the host's work around them."""
    return m.device_unseen or m.pieces_share(taken(m, m.once(reductions)))


@metric("share", STEP, needs_gpu=False)
def needless_gather_share(m: Measured) -> Value:
    """Exposed all-gathers of forward passes without gradients, and the host's work around them, less one pass per
    update.
    """
    passes, unseen = m.once(forward_passes), m.device_unseen
    if unseen or isinstance(passes, Unknown):
        return unseen or passes  # type: ignore[return-value]
    count = int(passes.in_vain.sum())
    if count <= passes.updates:
        return 0.0
    return m.pieces_share(taken(m, m.once(needless_gathers))) * (1 - passes.updates / count)
