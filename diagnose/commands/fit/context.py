"""Seconds of context parallelism: keys and values that travel around the ranks that share a sequence."""

import math

from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.transfers import exposed_s, group_gbs
from diagnose.formulas.size_curve import NETWORK_LATENCY_S
from diagnose.predict.memory.job import JobPlan

_WAYS = 3  # around the ring: forward keys and values, backward these once more and their gradients


def slowdown(plan: JobPlan, stack: StackRates) -> float:
    """Factor on attention's time where ranks share a sequence, each of them computing it in as many parts."""
    return 1 + stack.context_slowdown * math.log2(plan.sharding.cp)


def context_s(plan: JobPlan, stack: StackRates, attention_s: float) -> float:
    """Seconds of a block's ring of keys and values that attention does not hide (Liu et al. 2023, Ring Attention).

    Args:
        plan: the job.
        stack: the training stack.
        attention_s: of the block's attention, forward and backward.
    """
    return exposed_s(ring_s(plan, stack), 0.0, attention_s) if plan.sharding.cp > 1 else 0.0


def ring_s(plan: JobPlan, stack: StackRates) -> float:
    """Seconds of a block's ring if nothing hides it. Ranks that share a sequence lie next to tensor parallelism."""
    model, sharding = plan.model, plan.sharding
    if model.latent_rank:
        width = model.heads * (model.head_dim + model.value_dim)
    else:
        width = model.kv_heads * (model.head_dim + model.value_dim)
    sent = _WAYS * (sharding.cp - 1) * plan.micro_batch_tokens * width / sharding.tp * plan.precision.compute_bytes
    ranks = sharding.cp * sharding.tp
    if ranks <= plan.gpus_per_node:
        return sent / (group_gbs(plan, ranks) * 1e9)
    hops = _WAYS * (sharding.cp - 1)
    return sent * min(sharding.tp, plan.gpus_per_node) / (stack.node_gbs * 1e9) + hops * NETWORK_LATENCY_S
