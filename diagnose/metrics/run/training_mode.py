"""Whether layers compute as in training: `model.train()` is torch's default, and what only infers has to leave it."""

import re
from collections.abc import Iterator

import numpy as np

from diagnose.facts import Unknown, Value, capture_setting
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.roofline.calls import OperatorCall, call_of
from diagnose.roofline.owners import around, distinct
from diagnose.trace.vocabulary import GPU_CATEGORIES, OPS

_DROPOUT = re.compile(r"aten::(feature_|alpha_|feature_alpha_)?dropout_?")
_NORM = re.compile(r"aten::batch_norm")
_ATTENTION = re.compile(r"aten::scaled_dot_product_attention")
_CALLS = (_DROPOUT, _NORM, _ATTENTION)
_ONLY_WHEN_TRAINING = {  # operators and kernels that nothing else runs
    "dropout": re.compile(r"aten::(native_dropout|_fused_dropout)$|fused_dropout_kernel"),
    "BatchNorm": re.compile(
        r"aten::_batch_norm_with_update|bn_fw_tr_|batch_norm_collect_statistics|batch_norm_update_stats"
        r"|BatchNormFwdTrain|BnFwdTrain"
    ),
}
_P, _DROPOUT_TRAINS, _ATTENTION_P = 1, 2, 4  # the argument of each
_RUNNING_MEAN, _NORM_TRAINS = 3, 5
_NOTHING_SEEN = Unknown(
    "the trace shows no operators, and no kernel of layers in training mode",
    capture_setting("ProfilerActivity.CPU and CUDA together"),
)


@metric("text", needs_gpu=False)
def layers_in_training_mode(m: Measured) -> Value:
    """The layers that compute as `model.train()` makes them: "dropout", "BatchNorm", "dropout and BatchNorm" or "none".

    Read from the arguments of the operators, else from operators and kernels that run in training mode only. A
    BatchNorm without running statistics computes alike in both modes, and does not count.
    """
    found = {layer for layer in _ONLY_WHEN_TRAINING if _runs(m, _ONLY_WHEN_TRAINING[layer])} | set(_by_calls(m))
    if not found and not m.timeline.trace.rows_of(*OPS).any():
        return _NOTHING_SEEN
    return " and ".join(layer for layer in _ONLY_WHEN_TRAINING if layer in found) or "none"


def _runs(m: Measured, pattern: re.Pattern[str]) -> bool:
    return any(map(pattern.search, m.timeline.trace.names_of(*OPS, *GPU_CATEGORIES)))


def _by_calls(m: Measured) -> Iterator[str]:
    """The layers in training mode by the arguments of their operators, or by what these call."""
    trace = m.timeline.trace
    rows = np.flatnonzero(trace.named_in(lambda name: any(each.fullmatch(name) for each in _CALLS), *OPS))
    pairs, _ = distinct(trace.name[rows], trace.shape[rows])
    for name, shape in pairs.T.tolist():
        call = call_of(trace.names[name], trace.shapes[shape] if shape >= 0 else (b"", b"", b""))
        if layer := _layer_in_training(call):
            yield layer
    draws = m.timeline.rows_matching(r"aten::bernoulli_$", *OPS)
    dropouts = rows[np.array([bool(_DROPOUT.fullmatch(name)) for name in trace.names], bool)[trace.name[rows]]]
    if len(draws) and len(dropouts) and (around(trace, dropouts, draws) >= 0).any():
        yield "dropout"


def _layer_in_training(call: OperatorCall) -> str:
    """The layer of an operator whose arguments say that it computes as in training; "" if they do not."""
    if _DROPOUT.fullmatch(call.name):
        return "dropout" if call.scalar(_DROPOUT_TRAINS) is True and call.scalar(_P) else ""
    if _ATTENTION.fullmatch(call.name):
        return "dropout" if call.scalar(_ATTENTION_P) else ""
    return "BatchNorm" if call.scalar(_NORM_TRAINS) is True and call.sizes(_RUNNING_MEAN) else ""
