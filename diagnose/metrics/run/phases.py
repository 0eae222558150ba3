"""Shares of the step by phase in jobs that learn from generated text: generation, rewards, the update.

The step is divided at the phases' begins and ends on the host. On the device a phase lasts until the last activity
launched before its end is done or, if the device is done earlier, until its end on the host: idle time counts in the
phase of the host. So the phases, and the time between them, add up to the step.
"""

import re

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.probes import protocol
from diagnose.timeline import Timeline
from diagnose.trace.vocabulary import EVAL, LOGGING, OPTIMIZER_STEP

_NOT_MARKED = Unknown(
    "no range marks this phase in the counted steps",
    nothing_helps("trainers without such a phase have none; those of TRL are marked by diagnose run"),
)
_GENERATION, _REWARDS, _LOG_PROBABILITIES = (
    re.escape(name) for name in (protocol.GENERATION_RANGE, protocol.REWARDS_RANGE, protocol.LOG_PROBABILITIES_RANGE)
)
_UPDATE = "|".join(
    [*map(re.escape, (protocol.FORWARD_RANGE, protocol.BACKWARD_RANGE, protocol.CLIP_RANGE)), OPTIMIZER_STEP]
)
_ALL = "|".join((_GENERATION, _REWARDS, _LOG_PROBABILITIES, _UPDATE, EVAL, LOGGING))


@metric("flag", needs_gpu=False)
def marks_generation(m: Measured) -> Value:
    """Whether the trainer has the model write samples in the counted steps, as ranges of `diagnose run` mark it."""
    return len(_on_host(m, _GENERATION)) > 0


@metric("share", STEP, needs_gpu=False)
def generation_share(m: Measured) -> Value:
    """The step while the model writes the samples that it learns from."""
    return _share(m, _GENERATION)


@metric("share", STEP, needs_gpu=False)
def rewards_share(m: Measured) -> Value:
    """The step while samples are given their rewards."""
    return _share(m, _REWARDS)


@metric("share", STEP, needs_gpu=False)
def log_probabilities_share(m: Measured) -> Value:
    """The step while the log-probabilities of samples are computed, by the model as it was or the reference model.

    Log-probabilities for the loss count in the update.
    """
    return _share(m, _LOG_PROBABILITIES)


@metric("share", STEP, needs_gpu=False)
def update_share(m: Measured) -> Value:
    """Share of the step in forward and backward passes, clipping and the optimizer, for trainers that also generate."""
    return _share(m, _UPDATE) if len(_on_host(m, _GENERATION)) else _NOT_MARKED


@metric("flag", needs_gpu=False)
def generates_with_vllm(m: Measured) -> Value:
    """Whether TRL's trainer generates with vLLM (use_vllm)."""
    return m.recorded(m.record.flag("training_arguments.use_vllm"))


def _share(m: Measured, phase: str) -> Value:
    if m.device_unseen is not None:
        return m.device_unseen
    spans = _on_host(m, phase)
    if not len(spans):
        return _NOT_MARKED
    if m.timeline.has_gpu:
        spans = _on_device(m.timeline, spans)
    return m.counted_share(spans)


def _on_host(m: Measured, phase: str) -> iv.Intervals:
    """The phase in the counted steps: its ranges but for those inside another phase's, such as an evaluation's."""
    trace, host = m.timeline.trace, m.timeline.steps.host
    rows = m.timeline.rows_matching(_ALL, "user_annotation")
    rows = rows[np.lexsort((-trace.dur[rows], trace.ts[rows]))]
    ends = trace.ends(rows)
    outermost = np.ones(len(rows), bool)
    outermost[1:] = trace.ts[rows][1:] >= np.maximum.accumulate(ends)[:-1]
    rows = rows[outermost & m.timeline.matching(phase, "user_annotation")[rows]]
    spans = iv.intervals(trace.ts[rows], trace.ends(rows))
    return iv.intersect(spans, iv.intervals(host[:, 0], host[:, 1]))


def _on_device(timeline: Timeline, spans: iv.Intervals) -> iv.Intervals:
    order = np.argsort(timeline.gpu.launch_start, kind="stable")
    launched, done = timeline.gpu.launch_start[order], np.maximum.accumulate(timeline.gpu.end[order])

    def reached(times: Ints) -> Ints:
        before = np.searchsorted(launched, times)
        return np.where(before > 0, np.maximum(times, done[np.maximum(before - 1, 0)]), times)

    return iv.intervals(reached(spans[:, 0]), reached(spans[:, 1]))
