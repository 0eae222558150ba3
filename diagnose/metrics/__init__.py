"""Named measurements of one rank. Each returns a number, a flag or a text, or says why it cannot."""

from diagnose.metrics import (
    attention,
    batch,
    buckets,
    cadence,
    capture,
    causes,
    communication,
    compute,
    cores,
    data,
    gradients,
    hardware,
    input_work,
    kernels,
    memory,
    model_work,
    network,
    patterns,
    precisions,
    products,
    recorded,
    remedy_groups,
    roofline,
    setup,
    sharding,
    steps,
)
from diagnose.metrics.registry import REGISTRY, Measured, Metric, measure, merged

__all__ = ["REGISTRY", "Measured", "Metric", "measure", "merged"]

_REGISTERED = (steps, capture, causes, kernels, patterns, communication, data, memory)
_ALSO_REGISTERED = (model_work, compute, hardware, roofline, setup)
_DISTRIBUTED = (gradients, buckets, sharding, network, cadence)
_REMEDIES_REST_ON = (precisions, attention, products, batch, input_work, recorded, remedy_groups, cores)
