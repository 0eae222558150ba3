"""Whether anything trains: a backward pass or an optimizer's step."""

import re

from diagnose.facts import Unknown, Value, capture_setting
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.probes.protocol import BACKWARD_RANGE
from diagnose.trace.vocabulary import ANNOTATIONS, GPU_CATEGORIES, GRAPH_LAUNCH, OPS, OPTIMIZER_STEP, PYTHON, RUNTIME

# Names of operators: autograd's engine, its functions, gradients of operators, fused and foreach updates. The engine
# calls a function by its node's name, so that compiled code ("CompiledFunctionBackward") is among them.
_OPERATORS = re.compile(
    r"autograd::|(^|[\s:])\w*Backward\d*$|[\w:]*_backward(_|$|\.)|[\w:]*::backward$|aten::_fused_(ada|sgd)"
)
_RANGES = re.compile(
    rf"{OPTIMIZER_STEP}|Optimizer\.zero_grad#|{re.escape(BACKWARD_RANGE)}|torch(::|\.)distributed(::|\.)(ddp\.)?reducer"
)
_ENGINE = "<built-in method run_backward"
# Kernels of gradients. "dgrad" is left out: a transposed convolution's forward pass runs it.
_KERNELS = re.compile(r"backward|Backward|(_|\b)bwd|Bwd|bprop|wgrad|layer_norm_grad|GammaBeta")
_NO_OPERATORS = Unknown(
    "the trace shows no operators, and no kernel whose name says what it trains",
    capture_setting("ProfilerActivity.CPU and CUDA together"),
)
_HIDDEN_BY_GRAPHS = Unknown(
    "CUDA graphs hide the operators, and no kernel is named after a gradient or an optimizer",
    capture_setting("CPU activities of some steps without CUDA graphs"),
)


@metric("flag", needs_gpu=False)
def trains(m: Measured) -> Value:
    """Whether a backward pass or an optimizer is seen, in the record or the trace.

    Kernels decide only if operators cannot: without operators, or behind CUDA graphs. It is unknown then, unless
    kernels of gradients or optimizers run, or of attention, whose gradients have kernels of their own.
    """
    if m.record.text("optimizer.class") or isinstance(m.record.get("training_arguments"), dict) or _seen(m):
        return True
    shows_operators = bool(m.timeline.trace.rows_of(*OPS).any())
    if shows_operators and not len(m.timeline.rows_matching(GRAPH_LAUNCH, *RUNTIME)):
        return False
    if _named(m, _KERNELS, *GPU_CATEGORIES) or m.timeline.gpu.of_family("optimizer").any():
        return True
    if m.timeline.gpu.of_family("attention").any():
        return False
    return _HIDDEN_BY_GRAPHS if shows_operators else m.device_unseen or _NO_OPERATORS


def _seen(m: Measured) -> bool:
    """Gradients and updates, by operators, ranges, and Python's call of the engine."""
    if _named(m, _OPERATORS, *OPS) or _named(m, _RANGES, *ANNOTATIONS):
        return True
    return any(name.startswith(_ENGINE) for name in m.timeline.trace.names_of(*PYTHON))


def _named(m: Measured, pattern: re.Pattern[str], *categories: str) -> bool:
    return any(map(pattern.search, m.timeline.trace.names_of(*categories)))
