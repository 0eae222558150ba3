"""A mixture of experts: how many a token passes, and the products of experts that run one after the other."""

from collections.abc import Mapping

import numpy as np

from diagnose.arrays import Ints, Mask, shortened
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, nothing_helps
from diagnose.metrics.kernel_groups.operators import Signature, by_operator, dispatched, launching
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.flops import model_shape
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_SHAPES
from diagnose.roofline import owners
from diagnose.trace.vocabulary import ANNOTATIONS, BACKWARD

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_WEIGHT = {"aten::mm": 1, "aten::addmm": 2}  # position of the weight argument; the rows are those of the previous one
FEWEST = 16  # products with one weight's sizes in a step: fewer are not judged
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
    if isinstance(shape, Unknown):
        return shape
    return shape.active_parameters / shape.parameters


def _expert_rows(m: Measured) -> tuple[Ints, Ints] | Unknown:
    """Rows of the operators that multiply with one expert each, and the number of tokens of each.

    Products with weights of the same sizes belong to experts if consecutive ones have different numbers of rows: the
    tokens that were routed there. In a dense model these change only from micro-batch to micro-batch. Only the forward
    pass is used to recognise them: the gradients of a dense layer's weights share their right operand, the layer's
    input, and their rows are the outputs of one layer and the next. In the backward pass, products with the experts'
    transposed weights count.
    """
    found, fewest = launching(m), FEWEST * max(m.timeline.steps.count, 1)
    operands = [_operands(operator) for operator in found.signatures]
    numbers = {weight: number for number, weight in enumerate({of[1] for of in operands if of})}
    if not numbers:
        unsized = sum(operator.calls for operator in found.signatures if operator.name in _WEIGHT)
        return NO_SHAPES if unsized >= fewest else (m.operators[:0], m.operators[:0])
    known = np.array([(numbers[of[1]], of[0]) if of else (-1, 0) for of in operands])
    weight, tokens = (column[found.of_operator] for column in known.T)
    is_forward = ~_in_backward(m)
    order = dispatched(m)[(weight >= 0)[dispatched(m)] & is_forward[dispatched(m)]]
    order = order[np.argsort(shortened(weight[order], len(numbers)), kind="stable")]
    experts_weights = np.zeros(len(numbers) + 1, bool)
    experts_weights[weight[order[_are_routed(weight[order], tokens[order], fewest)]]] = True
    in_any_pass = experts_weights.copy()
    for (rows, columns), number in numbers.items():
        in_any_pass[number] |= experts_weights[numbers.get((columns, rows), -1)]
    routed = np.where(is_forward, experts_weights[weight], in_any_pass[weight])
    return m.operators[routed], tokens[routed]


def _in_backward(m: Measured) -> Mask:
    """Mask of the launching operators that autograd's engine calls."""
    line = m.timeline
    return owners.around(line.trace, line.rows_matching(BACKWARD, *ANNOTATIONS), m.operators) >= 0


def _are_routed(weight: Ints, tokens: Ints, fewest: int) -> Mask:
    """Mask of the products of experts, by their weights' numbers, which ascend, and rows in the order of dispatch."""
    changed = (weight[1:] == weight[:-1]) & (tokens[1:] != tokens[:-1])
    products = np.bincount(weight)
    changes = np.bincount(weight[1:][changed], minlength=len(products))
    return ((products >= fewest) & (changes > _CHANGES * (products - 1)))[weight]


def _operands(operator: Signature) -> tuple[int, tuple[int, ...]] | None:
    """Rows of the left operand of a linear layer's product, and the sizes of the right one; None without sizes."""
    at, dims = _WEIGHT.get(operator.name), operator.dims
    if at is None or len(dims) <= at or len(dims[at]) != 2 or len(dims[at - 1]) != 2:
        return None
    return dims[at - 1][0], dims[at]


@metric("count")
def expert_products_per_step(m: Measured) -> Value:
    """Products of single experts in a step, forward and for the gradients of inputs; 0 if none runs separately."""
    found = m.once(_expert_rows)
    return found if isinstance(found, Unknown) else m.timeline.steps.each(len(found[0]))


@metric("share", STEP)
def expert_product_share(m: Measured) -> Value:
    """Kernels of the products of single experts."""
    found = m.once(_expert_rows)
    return found if isinstance(found, Unknown) else m.share_of(by_operator(m, found[0]))


@metric("ns")
def mean_expert_product_ns(m: Measured) -> Value:
    """Mean time of a kernel of a single expert's product."""
    found = m.once(_expert_rows)
    if isinstance(found, Unknown):
        return found
    kernels = by_operator(m, found[0])
    return float(m.own_time[kernels].mean()) if kernels.any() else NO_EXPERTS


@metric("factor")
def expert_load_factor(m: Measured) -> Value:
    """Tokens of the fullest expert's product over the mean; 1 is an even load.

    No trace shows the tokens of experts in grouped products: capture the router's counts (output_router_logits).
    """
    found = m.once(_expert_rows)
    if isinstance(found, Unknown):
        return found
    tokens = found[1]
    return float(tokens.max() / tokens.mean()) if len(tokens) else NO_EXPERTS
