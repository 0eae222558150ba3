"""Forward passes between optimizer steps: how many reduce gradients, and how many gather parameters without gradients.

Passes are counted on the host, where each backend and each wrapper leaves the same marks.
"""

import re

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask
from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, another_run, nothing_helps
from diagnose.metrics.communication.gradients import FORWARD
from diagnose.metrics.communication.reducers import BETWEEN_REPLICAS, reduces_between_replicas
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.probes.protocol import BACKWARD_RANGE, FORWARD_RANGE
from diagnose.trace.vocabulary import ANNOTATIONS, BACKWARD, OPS, REDUCER

_PASS = rf"{FORWARD}|{re.escape(FORWARD_RANGE)}"
_REDUCES = rf"{REDUCER}|FSDP::post_backward_reduce"
REDUCTION_CALL = r"c10d::(allreduce_|_?reduce_)"
GATHER_CALL = r"c10d::_?allgather_"
_GATHERS = (r"FSDP::all_gather( \(|$)", GATHER_CALL)  # of the wrapper, else of any
_AWAITS_GRADIENTS = r"RegisterPostBackwardFunction$|PreBackwardFunctionFor"  # left out where gradients are off


class Passes(msgspec.Struct, frozen=True):
    """The forward passes of whole updates, in order; columns of equal length.

    Attributes:
        start: nanoseconds on the host.
        until: the next pass begins.
        trains: whether a backward pass follows before that.
        reduces: whether gradients are reduced before that.
        gathers: all-gathers of parameters before that.
        updates: optimizer steps that these passes belong to.
    """

    start: Ints
    until: Ints
    trains: Mask
    reduces: Mask
    gathers: Ints
    updates: int

    @property
    def in_vain(self) -> Mask:
        """Whether the pass gathers parameters and no gradients follow."""
        return np.asarray(~self.trains & (self.gathers > 0))


def forward_passes(m: Measured) -> Passes | Unknown:
    """The forward passes between the optimizer steps of the trace."""
    starts = m.ranges(_PASS)[:, 0]
    if not len(starts):
        return Unknown(
            "the trace has no forward range of a wrapper that reduces gradients",
            nothing_helps("the model is wrapped in none"),
        )
    updates = _updates(m)
    if not len(updates):
        return Unknown("the trace has no optimizer step", another_run("step a torch.optim optimizer", DIAGNOSE_RUN))
    until = np.append(starts[1:], np.iinfo(np.int64).max)
    closes = np.flatnonzero(_counted(updates, starts, until) > 0)
    if len(closes) < 2:
        return Unknown(
            "fewer than two optimizer steps with their forward passes", another_run("capture three steps or more")
        )
    begin, end = starts[closes[0] + 1 : closes[-1] + 1], until[closes[0] + 1 : closes[-1] + 1]
    backward = np.concatenate([_calls(m, rf"{BACKWARD}|{re.escape(BACKWARD_RANGE)}"), _calls(m, _AWAITS_GRADIENTS)])
    return Passes(
        start=begin,
        until=end,
        trains=_counted(backward, begin, end) > 0 if len(backward) else np.ones(len(begin), bool),
        reduces=_counted(_reductions(m), begin, end) > 0,
        gathers=_counted(_gathers(m), begin, end),
        updates=len(closes) - 1,
    )


def _updates(m: Measured) -> Ints:
    """Instants of the host at which an optimizer updates.

    A wrapper's step that calls no optimizer of torch, where others do, leaves the update to a later micro-step.
    """
    steps, trace = m.timeline.optimizer_steps, m.timeline.trace
    inner = trace.ends(m.timeline.rows_matching(r"Optimizer\.step#", *ANNOTATIONS))
    return steps[_counted(inner, steps[:, 0], steps[:, 1] + 1) > 0, 0] if len(inner) else steps[:, 0]


def _calls(m: Measured, pattern: str) -> Ints:
    """Instants of the host at which ranges and operators of this name begin."""
    return m.timeline.trace.ts[m.timeline.rows_matching(pattern, *ANNOTATIONS)]


def _counted(times: Ints, start: Ints, end: Ints) -> Ints:
    ordered = np.sort(times)
    return np.asarray(np.searchsorted(ordered, end) - np.searchsorted(ordered, start))


def _reductions(m: Measured) -> Ints:
    """Instants of the host at which gradients are reduced: the wrapper's marks, and collectives of the backward pass.

    Where replicas hold shards, only what is reduced between replicas counts: shards may be reduced as often, which
    keeps memory.
    """
    if reduces_between_replicas(m):
        between = m.timeline.trace.ts[m.timeline.rows_matching(BETWEEN_REPLICAS, *OPS)]
        return between[iv.holds(m.ranges("FSDP::post_backward_reduce"), between)]
    launched = m.timeline.gpu.launch_start[m.messages.activity[m.messages.reduces_gradients]]
    if not len(launched):
        calls = _calls(m, REDUCTION_CALL)
        launched = calls[iv.holds(m.ranges(rf"{BACKWARD}|{re.escape(BACKWARD_RANGE)}"), calls)]
    return np.concatenate([_calls(m, _REDUCES), launched])


def _gathers(m: Measured) -> Ints:
    """Instants of the host at which parameters are gathered."""
    marks = (_calls(m, pattern) for pattern in _GATHERS)
    return next((calls for calls in marks if len(calls)), m.messages.launched[m.messages.gathers])


@metric("count", needs_gpu=False)
def micro_steps_per_update(m: Measured) -> Value:
    """Forward passes of the wrapped model that a backward pass follows, for each optimizer step."""
    passes = m.once(forward_passes)
    return passes if isinstance(passes, Unknown) else int(passes.trains.sum()) / passes.updates


@metric("count", needs_gpu=False)
def reduced_micro_steps_per_update(m: Measured) -> Value:
    """Forward passes of the wrapped model whose gradients are reduced, for each optimizer step; one is enough."""
    passes = m.once(forward_passes)
    return passes if isinstance(passes, Unknown) else int(passes.reduces.sum()) / passes.updates


@metric("count", needs_gpu=False)
def gathers_without_gradients_per_update(m: Measured) -> Value:
    """Forward passes without gradients that gather sharded parameters, for each optimizer step; one is enough."""
    passes = m.once(forward_passes)
    return passes if isinstance(passes, Unknown) else int(passes.in_vain.sum()) / passes.updates


@metric("count", needs_gpu=False)
def parameter_gathers_per_update(m: Measured) -> Value:
    """The times that sharded parameters are gathered for each optimizer step, with and without gradients.

    All-gathers are counted in the units of a forward pass without gradients.
    """
    passes = m.once(forward_passes)
    if isinstance(passes, Unknown):
        return passes
    if not passes.in_vain.any():
        return Unknown("no forward pass without gradients gathers", nothing_helps("nothing is gathered without need"))
    return float(passes.gathers.sum() / np.median(passes.gathers[passes.in_vain]) / passes.updates)
