"""Effects of the batch size: the part of a step that does not grow with it, how much it may grow, recomputation."""

import math

from diagnose import intervals as iv
from diagnose.attribution.causes import EXPOSED, IDLE, IDLE_FOR_INPUT
from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.formulas import share
from diagnose.formulas.batch_model import BatchModel, recompute_pays
from diagnose.metrics.kernel_groups.phases import recompute_spans, recomputed
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.memory import memory_peak_bytes, memory_total_bytes
from diagnose.metrics.run.setup import accumulation_steps, micro_batch_size

MOST_GROWTH = 4.0
FILLED = 0.9  # of the device memory: the rest is for fragments, the CUDA context and longer batches
MOST_STATES = 0.8  # of the peak: with more, activations could not be separated
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}


@metric("share", STEP)
def fixed_share(m: Measured) -> Value:
    """Share of the step that a larger batch does not lengthen: optimizer, clipping, exposed collectives, and idle time
    except for input.
    """
    host = [cause for cause in IDLE if cause not in IDLE_FOR_INPUT]
    return m.share("optimizer", "clip", EXPOSED, *host)


@metric("share", STEP)
def recompute_share(m: Measured) -> Value:
    """Kernels of a forward pass that runs again inside the backward pass (activation checkpointing)."""
    return m.share_of(recomputed(m))


@metric("share", STEP, needs_gpu=False)
def recompute_host_share(m: Measured) -> Value:
    """The host runs a forward pass again inside the backward pass. A device may wait for what it launches."""
    spans = m.once(recompute_spans)
    if isinstance(spans, Unknown):
        return spans
    steps = m.timeline.steps.host
    return share(iv.total(iv.intersect(spans, steps)), iv.total(steps)) or 0.0


@metric("bytes", needs_gpu=False)
def model_state_bytes(m: Measured) -> Value:
    """Weights, gradients, and the two moments of Adam on this rank, in the types that the model has."""
    dtypes, trained = m.record.get("model.dtypes"), m.record.number("model.trainable")
    everything = m.record.number("model.parameters")
    if not isinstance(dtypes, dict) or trained is None or not everything:
        return m.unrecorded
    weights = sum(_BYTES.get(str(name), 1) * float(count) for name, count in dtypes.items())
    adam = "Adam" in (m.record.text("optimizer.class") or "")
    return weights * (1 + (3 if adam else 1) * min(trained / everything, 1.0))


@metric("factor")
def larger_batch_factor(m: Measured) -> Value:
    """Factor by which the micro-batch can grow until nine tenths of the device memory are used, at most four.

    Activations grow with the batch; weights, gradients and optimizer states do not. If their size is unknown, all of
    the peak is assumed to grow. The result is a whole number of samples if the micro-batch is known.
    """
    peak, total = memory_peak_bytes(m), memory_total_bytes(m)
    if isinstance(peak, Unknown) or isinstance(total, Unknown):
        return peak if isinstance(peak, Unknown) else total
    known = model_state_bytes(m)
    states = 0.0 if isinstance(known, Unknown) else min(float(known), MOST_STATES * float(peak))
    factor = (FILLED * float(total) - states) / (float(peak) - states)
    factor = min(max(factor, 1.0), MOST_GROWTH)
    batch = micro_batch_size(m)
    return factor if isinstance(batch, Unknown) else math.floor(factor * float(batch)) / max(float(batch), 1.0)


@metric("count")
def larger_micro_batch(m: Measured) -> Value:
    """Samples of one micro-batch that fit on one device: the micro-batch times larger_batch_factor."""
    factor, batch = larger_batch_factor(m), micro_batch_size(m)
    if isinstance(factor, Unknown) or isinstance(batch, Unknown):
        return factor if isinstance(factor, Unknown) else batch
    return round(float(factor) * float(batch))


@metric("count")
def fewer_accumulation_steps(m: Measured) -> Value:
    """Micro-batches of one optimizer step that keep its samples with larger_micro_batch; unknown without any."""
    larger, batch, steps = larger_micro_batch(m), micro_batch_size(m), accumulation_steps(m)
    for value in (larger, batch, steps):
        if isinstance(value, Unknown):
            return value
    if not float(steps) > 1:  # type: ignore[arg-type]
        return Unknown("no gradients are accumulated", nothing_helps("each micro-batch is one optimizer step"))
    return max(1, round(float(steps) * float(batch) / max(float(larger), 1.0)))  # type: ignore[arg-type]


@metric("factor")
def optimizer_repeats_factor(m: Measured) -> Value:
    """Optimizer steps for the tokens that larger_micro_batch adds: 1 without accumulation, more if accumulation is
    lowered.
    """
    factor, fewer, steps = larger_batch_factor(m), fewer_accumulation_steps(m), accumulation_steps(m)
    if isinstance(factor, Unknown):
        return factor
    if isinstance(fewer, Unknown) or isinstance(steps, Unknown):
        return 1.0
    return float(steps) / float(fewer)


@metric("flag")
def recompute_pays_off(m: Measured) -> Value:
    """Whether a batch four times as large saves more fixed time per sample than a repeated forward pass costs."""
    batch = micro_batch_size(m)
    samples = 1 if isinstance(batch, Unknown) else max(round(float(batch)), 1)
    seconds = m.step_s
    line = BatchModel.from_fixed(float(fixed_share(m)) * seconds, samples, seconds)  # type: ignore[arg-type]
    return recompute_pays(line, samples, MOST_GROWTH * samples)
