"""Named measurements of one rank. Each returns a number, a flag or a text, or says why it cannot."""

from diagnose.metrics import (
    attention,
    batch,
    capture,
    causes,
    communication,
    compute,
    data,
    hardware,
    input_work,
    kernels,
    memory,
    model_work,
    patterns,
    precisions,
    products,
    recorded,
    remedy_groups,
    roofline,
    setup,
    steps,
)
from diagnose.metrics.registry import REGISTRY, Measured, Metric, measure, merged

__all__ = ["REGISTRY", "Measured", "Metric", "measure", "merged"]

_REGISTERED = (steps, capture, causes, kernels, patterns, communication, data, memory)
_ALSO_REGISTERED = (model_work, compute, hardware, roofline, setup)
_REMEDIES_REST_ON = (precisions, attention, products, batch, input_work, recorded, remedy_groups)
