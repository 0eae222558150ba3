"""The loader's rate of samples, as far as a training job shows it."""

import statistics

from diagnose.facts import Unknown, Value, another_run
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.setup import accumulation_steps, micro_batch_size

LEAST_WAIT = 0.1  # of the step: above it the loader sets the pace
MEASURE = another_run("measure it with diagnose data")
KEEPS_UP = Unknown(
    "the loader has batches ready before steps ask for them: how much faster it could be does not show", MEASURE
)
UNTIMED = Unknown("no batch was timed", MEASURE)


@metric("samples_per_s", needs_gpu=False)
def loader_samples_per_s(m: Measured) -> Value:
    """Samples per second that the loader gives. Without workers: the samples of a micro-batch over the mean time of its
    fetch. With workers: the samples that steps take, if they wait for data.
    """
    batch, workers = micro_batch_size(m), m.record.number("loading.workers")
    if isinstance(batch, Unknown) or workers is None:
        return batch if isinstance(batch, Unknown) else m.unrecorded
    if workers:
        return _as_steps_take_them(m, float(batch))
    waits = [wait for wait in m.record.get("loading.wait_ns") or () if wait]
    return float(batch) / statistics.fmean(waits) * 1e9 if waits else UNTIMED


@metric("samples_per_s", needs_gpu=False)
def worker_samples_per_s(m: Measured) -> Value:
    """The same of each process that loads: of a worker, or without workers of the training process."""
    rate, workers = loader_samples_per_s(m), m.record.number("loading.workers")
    return rate if isinstance(rate, Unknown) else float(rate) / max(workers or 1, 1)


@metric("bytes_per_s", needs_gpu=False)
def loader_bytes_per_s(m: Measured) -> Value:
    """Bytes of the tensors that the loader gives, at that rate: of the last batch that was seen."""
    rate, batch, size = loader_samples_per_s(m), micro_batch_size(m), m.record.number("batch.bytes")
    if isinstance(rate, Unknown) or isinstance(batch, Unknown) or size is None:
        return rate if isinstance(rate, Unknown) else m.unrecorded
    return float(rate) * size / max(float(batch), 1.0)


def _as_steps_take_them(m: Measured, batch: float) -> Value:
    if m.share("data-wait") < LEAST_WAIT:
        return KEEPS_UP
    batches = accumulation_steps(m)
    return batches if isinstance(batches, Unknown) else batch * float(batches) / m.step_s
