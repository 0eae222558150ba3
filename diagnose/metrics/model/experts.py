"""A mixture of experts: how many a token passes, and the products of experts that run one after the other."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, capture_setting, nothing_helps
from diagnose.metrics.kernel_groups.operators import by_operator, operator_dims, operators
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.flops import model_shape
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_SHAPES

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_WEIGHT = {"aten::mm": 1, "aten::addmm": 2}  # which argument the weight is; the rows are those of the one before
FEWEST = 16  # products with one weight's sizes in a step: of fewer nothing is told
_CHANGES = 0.5  # of products after each other, how many have other rows; of a dense model one for all of its layers
NO_EXPERTS = Unknown("no experts run one by one", nothing_helps("the model has none, or they run in grouped products"))


def _config(m: Measured) -> Mapping[str, object] | None:
    config = m.record.get("model.config")
    return config if isinstance(config, Mapping) else None


@metric("count", needs_gpu=False)
def experts(m: Measured) -> Value:
    """Experts of each block that tokens are routed to, by the model's configuration; 0 for a dense model."""
    config = _config(m)
    if config is None:
        return m.unrecorded
    counts = (config.get(name) for name in _EXPERTS)
    return next((count for count in counts if isinstance(count, int) and count > 0), 0)


@metric("count", needs_gpu=False)
def experts_per_token(m: Measured) -> Value:
    """Experts that a token is routed to (num_experts_per_tok)."""
    config = _config(m)
    if config is None:
        return m.unrecorded
    count = config.get("num_experts_per_tok")
    return count if isinstance(count, int) and count > 0 else Unknown("the configuration names none", DIAGNOSE_RUN)


@metric("share", "the parameters of the model", needs_gpu=False)
def active_parameter_share(m: Measured) -> Value:
    """Parameters without the experts that a token passes by: what model FLOPs and so MFU count. 1 for a dense model."""
    shape = model_shape(m)
    if shape is None:
        return Unknown("the record does not tell the sizes of the model", capture_setting("diagnose run"))
    return shape.active_parameters / shape.parameters


def _expert_rows(m: Measured) -> dict[int, int] | Unknown:
    """Rows of the operators that multiply with one expert each, and of how many tokens.

    Products with weights of the same sizes belong to experts where those after each other have other numbers of rows:
    the tokens that were routed there. In a dense model these change from micro-batch to micro-batch alone.
    """
    by_weight: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    found = operators(m, lambda name: name in _WEIGHT)
    names, order = m.timeline.trace.names, np.argsort(m.timeline.trace.ts[found], kind="stable").tolist()
    sized = False
    for row in (found[at] for at in order):
        dims, at = operator_dims(m, row), _WEIGHT[names[m.timeline.trace.name[row]]]
        if len(dims) > at and len(dims[at]) == 2 and len(dims[at - 1]) == 2:
            sized = True
            by_weight[dims[at]].append((row, dims[at - 1][0]))
    fewest = FEWEST * max(m.timeline.steps.count, 1)
    if len(found) >= fewest and not sized:
        return NO_SHAPES
    return {row: tokens for each in by_weight.values() if _is_routed(each, fewest) for row, tokens in each}


def _is_routed(products: Sequence[tuple[int, int]], fewest: int) -> bool:
    tokens = np.array([tokens for _, tokens in products])
    return len(tokens) >= fewest and bool((tokens[1:] != tokens[:-1]).mean() > _CHANGES)


@metric("count")
def expert_products_per_step(m: Measured) -> Value:
    """Products of single experts in a step, forward and for the gradients of inputs; 0 where none runs by itself."""
    rows = _expert_rows(m)
    return rows if isinstance(rows, Unknown) else len(rows) / max(m.timeline.steps.count, 1)


@metric("share", STEP)
def expert_product_share(m: Measured) -> Value:
    """Kernels of the products of single experts."""
    rows = _expert_rows(m)
    return rows if isinstance(rows, Unknown) else m.share_of(by_operator(m, set(rows)))


@metric("ns")
def mean_expert_product_ns(m: Measured) -> Value:
    """Mean time of a kernel of a single expert's product."""
    rows = _expert_rows(m)
    if isinstance(rows, Unknown):
        return rows
    kernels = by_operator(m, set(rows))
    return float(m.own_time[kernels].mean()) if kernels.any() else NO_EXPERTS


@metric("factor")
def expert_load_factor(m: Measured) -> Value:
    """Tokens of the fullest expert's product over those of the mean one; 1 would be an even load.

    Of experts in grouped products no trace tells the tokens: capture the router's counts (output_router_logits).
    """
    rows = _expert_rows(m)
    if isinstance(rows, Unknown):
        return rows
    tokens = np.array(list(rows.values()), float)
    return float(tokens.max() / tokens.mean()) if len(tokens) else NO_EXPERTS
