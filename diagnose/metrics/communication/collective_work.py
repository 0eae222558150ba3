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
from diagnose.attribution.causes import EXPOSED, IDLE, ON_A_CORE, WAITING
from diagnose.facts import STEP, Unknown, Value
from diagnose.intervals import Intervals
from diagnose.metrics.communication.ddp import uses_ddp
from diagnose.metrics.communication.gradients import FORWARD
from diagnose.metrics.communication.micro_steps import GATHER_CALL, REDUCTION_CALL, forward_passes
from diagnose.metrics.communication.reducers import BETWEEN_REPLICAS, reduces_between_replicas
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.probes.protocol import BACKWARD_RANGE
from diagnose.ranks.collectives.messages import REDUCTIONS
from diagnose.timeline.kernel_names import collective_kind
from diagnose.trace.vocabulary import (
    ANNOTATIONS,
    BACKWARD,
    CLIP,
    COMMUNICATION_RANGES,
    EVAL,
    OPS,
    OPTIMIZER_STEP,
    REDUCER,
    SAVE,
)

_CALL = r"c10d::"
_PACKS_GRADIENTS = (
    r"FSDP::post_backward_(reduce|rs_wait)|torch\.distributed\.ddp\.reducer::copy_|torch::distributed::reducer::"
)
_REDUCING_HOOKS = r"FullyShardedDataParallel\._post_backward_hook"
_GATHERS_AHEAD = r"FullyShardedDataParallel\._post_backward_prefetch"
_PACKS_PARAMETERS = r"FSDP::all_gather"
_BETWEEN_NS = 1_000_000  # a longer gap holds other work of the loop, such as loading
_BETWEEN_ALL = r"c10d::(?!send|recv|alltoall)"  # the others carry parts of a model that ranks divide
_OF_DIVIDED = ("alltoall", "sendrecv")
_NOT_OF_LOOP = (
    f"{FORWARD}|{BACKWARD}|{re.escape(BACKWARD_RANGE)}|{OPTIMIZER_STEP}|{CLIP}|{EVAL}|{SAVE}|{REDUCER}|FSDP::"
)
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


def loop_collectives(m: Measured) -> CollectiveWork:
    """Collectives that the loop itself makes beside those of DDP: outside of its passes, the optimizer and evaluation.

    Other wrappers communicate between the operators of a forward pass, where the loop's own look like theirs.
    """
    return _work(m, m.once(_loop_calls), iv.EMPTY, iv.EMPTY, _loop_sends(m), ())


def _loop_calls(m: Measured) -> Ints:
    return _calls(m, _BETWEEN_ALL, m.once(_of_the_loop))


def _loop_sends(m: Measured) -> Mask:
    """Mask of the messages that the device sends for the loop."""
    sends = m.messages
    of_loop = iv.holds(m.once(_of_the_loop), sends.launched) & ~sends.in_backward
    return of_loop & ~np.isin(sends.kind, _OF_DIVIDED)


def _of_the_loop(m: Measured) -> Intervals:
    """The instants of the counted steps, on the host, at which the code of the loop runs; none without DDP."""
    host = m.timeline.steps.host
    steps = iv.intervals(host[:, 0], host[:, 1]) if uses_ddp(m) and len(host) else iv.EMPTY
    return iv.subtract(steps, m.ranges(_NOT_OF_LOOP))


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


@metric("share", STEP, needs_gpu=False)
def loop_collective_share(m: Measured) -> Value:
    """Exposed collectives that the loop makes beside those of DDP, and the host's calls of them; 0 without DDP."""
    return m.device_unseen or m.pieces_share(taken(m, m.once(loop_collectives)))


@metric("share", STEP, needs_gpu=False)
def around_loop_collectives_share(m: Measured) -> Value:
    """The loop's collectives with its short work between two of them; on a GPU, as far as the device idles there."""
    if m.device_unseen:
        return m.device_unseen
    own, spans = m.once(loop_collectives), m.once(_loop_spans)
    beside = iv.intersect(m.attribution.pieces(*IDLE), spans) if m.timeline.has_gpu else spans
    return m.pieces_share(iv.intersect(iv.union(taken(m, own), beside), m.attribution.counted))


def _loop_spans(m: Measured) -> Intervals:
    """The loop's collectives and its short work between two of them, such as what makes or reads a metric."""
    within, calls, trace = m.once(_of_the_loop), m.once(_loop_calls), m.timeline.trace
    busy = iv.union(iv.intervals(trace.ts[calls], trace.ends(calls)), m.once(loop_collectives).sent)
    between = iv.intervals(busy[:-1, 1], busy[1:, 0])
    short = iv.subtract(between, iv.longer_than(between, _BETWEEN_NS))
    return iv.intersect(iv.union(busy, short), within)


@metric("count", needs_gpu=False)
def loop_collectives_per_step(m: Measured) -> Value:
    """The loop's collectives in a step: those that the device runs or, without a GPU, the calls."""
    if m.device_unseen:
        return m.device_unseen
    made = int(_loop_sends(m).sum()) if m.timeline.has_gpu else len(m.once(_loop_calls))
    return m.timeline.steps.each(made)


@metric("share", "the loop's collectives", needs_gpu=False)
def loop_broadcast_share(m: Measured) -> Value:
    """The part of them in which one rank sends to all others, by the host's calls, else the messages; 0 without any."""
    calls, trace = m.once(_loop_calls), m.timeline.trace
    kinds = [trace.names[name] for name in trace.name[calls]] or m.messages.kind[_loop_sends(m)].tolist()
    return sum("broadcast" in kind for kind in kinds) / max(len(kinds), 1)
