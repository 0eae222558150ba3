"""Seconds that a mixture of experts adds to a micro-batch: products with few tokens, routing, exchange of tokens.

A rank computes as many pairs of a token and an expert with expert parallelism as without; there are fewer experts to
compute them, each with more tokens.
"""

import math

from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.transfers import exposed_s, group_gbs
from diagnose.formulas.model_flops import dense_flops_per_token
from diagnose.formulas.size_curve import NETWORK_LATENCY_S
from diagnose.predict.memory.job import JobPlan

_TILE_ROWS = 128  # of a matrix product: a kernel multiplies whole tiles
_PASSES = 3  # over the weights: the forward product, and the gradients of inputs and of weights
_EXCHANGES = 4  # of a layer's tokens: to the experts and back, forward and backward
_FORWARD_SHARE = 1 / 3
_EXCHANGE_GBS = 45.0  # of a GPU between nodes with 400 Gbit/s each: 43 to 58 in the table of DeepEP's README

# Operators that launch work, forward and backward, counted by dispatch in transformers 5.23: of a block of Llama, and
# beyond it of a mixture's block in grouped products, in a loop, and of each expert of the loop.
_OF_DENSE_BLOCK, _OF_GROUPED, _OF_LOOP, _OF_EXPERT = 105, 39, 7, 32
# Reads and writes of a routed token in 16 bits: gathered, scaled and summed in grouped products, or expert by expert.
_ROUTING_VALUES = {"grouped": 8, "loop": 17}
_ROUTER_VALUES = 20  # reads and writes of each of the router's scores


def mixture_layers(plan: JobPlan, layers: int) -> float:
    """How many of a stage's blocks are mixtures, in the mean over stages."""
    return layers * plan.model.mixture_layers / plan.model.layers


def pairs(plan: JobPlan) -> float:
    """Pairs of a token and a routed expert that a rank computes in a layer."""
    return plan.micro_batch_tokens * plan.model.experts_per_token / plan.sharding.tp


def local_experts(plan: JobPlan) -> int:
    """Experts of a layer that a rank holds, whole or its slice of each."""
    return plan.model.experts // plan.sharding.ep


def expert_products_s(plan: JobPlan, stack: StackRates, matrix_flops: float, memory_bytes_per_s: float) -> float:
    """Seconds of a layer's routed products: whole tiles at the stack's rate, or as long as the weights take to read."""
    experts = local_experts(plan)
    cut = plan.sharding.tp if plan.sharding.ep == 1 else 1
    rows = pairs(plan) * cut / experts
    used = min(experts, max(pairs(plan) * cut, 1))
    tiles = math.ceil(rows / _TILE_ROWS) * _TILE_ROWS
    flops = dense_flops_per_token(plan.model.expert_weights / cut) * tiles * used
    rate = matrix_flops * stack.expert_share / (stack.fp8_share if plan.fp8 else 1)
    read = _PASSES * used * plan.model.expert_weights / cut * plan.precision.compute_bytes
    return max(flops / rate, read / memory_bytes_per_s)


def with_experts(
    parts: dict[str, float], plan: JobPlan, stack: StackRates, layers: int, rates: tuple[float, float]
) -> dict[str, float]:
    """The parts of a stage, with its routed products as experts compute them, and what routing adds.

    Args:
        parts: seconds, with the routed products at the rate of dense ones.
        plan: the job.
        stack: the training stack.
        layers: blocks of the stage.
        rates: FLOP/s of dense products, and bytes/s of the memory.
    """
    model, mixtures = plan.model, mixture_layers(plan, layers)
    if not mixtures:
        return parts
    matrix_flops, memory_bytes_per_s = rates
    as_dense = dense_flops_per_token(model.expert_weights) * pairs(plan) / matrix_flops
    as_dense *= stack.fp8_share if plan.fp8 else 1
    more = mixtures * (expert_products_s(plan, stack, *rates) - as_dense)
    values = _ROUTING_VALUES[plan.expert_products] * pairs(plan) * model.hidden
    values += _ROUTER_VALUES * plan.micro_batch_tokens / plan.sharding.tp * model.experts
    routing = mixtures * values * plan.precision.compute_bytes / memory_bytes_per_s
    again = _FORWARD_SHARE * (more + routing) if plan.checkpointing == "full" else 0.0
    computed = parts["matrix products"] + more
    return parts | {
        "matrix products": computed,
        "routing of tokens": routing,
        "recomputation": parts["recomputation"] + again,
        "exchange of tokens": exposed_s(
            mixtures * exchange_s(plan, stack), stack.exchange_exposed_share, _FORWARD_SHARE * computed
        ),
        "waiting for each expert's tokens": _FORWARD_SHARE * mixtures * loop_s(plan, stack),
    }


def exchange_s(plan: JobPlan, stack: StackRates) -> float:
    """Seconds of a layer's all-to-alls if nothing hides them.

    A token that several experts of one node take crosses the network once, as DeepEP and its like send it; inside a
    node each rank that has one of its experts gets it.
    """
    ep, model = plan.sharding.ep, plan.model
    if ep == 1:
        return 0.0
    nodes = max(ep // plan.gpus_per_node, 1)
    token = model.hidden * plan.precision.compute_bytes * plan.micro_batch_tokens / plan.sharding.tp
    inside = token * _reached(ep, model.experts_per_token)
    seconds = inside / (group_gbs(plan, min(ep, plan.gpus_per_node)) * 1e9)
    if nodes > 1:
        crossing = token * _reached(nodes, model.experts_per_token)
        seconds += crossing / (_EXCHANGE_GBS * 1e9) + NETWORK_LATENCY_S * nodes
    return _EXCHANGES * seconds


def _reached(places: int, experts: int) -> float:
    """Mean number of other places that a token is sent to, if its experts lie in any of them alike."""
    return (places - 1) * (1 - (1 - 1 / places) ** experts)


def loop_s(plan: JobPlan, stack: StackRates) -> float:
    """Seconds of the host to launch the experts of a layer one by one; 0 for grouped products."""
    if plan.expert_products != "loop":
        return 0.0
    used = min(local_experts(plan), pairs(plan))
    return stack.host_layer_s * (_OF_LOOP + _OF_EXPERT * used) / _OF_DENSE_BLOCK


def expert_host_s(plan: JobPlan, stack: StackRates, layers: int) -> float:
    """Seconds of the host for the mixtures of a stage beyond dense blocks, which its device may hide.

    The loop looks up each expert's tokens on the host, which waits for the device to have counted them: of its forward
    pass nothing is hidden, and `with_experts` has it.
    """
    grouped = stack.host_layer_s * _OF_GROUPED / _OF_DENSE_BLOCK + stack.expert_layer_s
    looped = (1 - _FORWARD_SHARE) * loop_s(plan, stack)
    return mixture_layers(plan, layers) * (looped if plan.expert_products == "loop" else grouped)
