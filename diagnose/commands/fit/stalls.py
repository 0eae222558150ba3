"""Jobs between nodes that stall: their probability, the lost time, and the step to expect when some of them do."""

import math
from functools import lru_cache
from statistics import NormalDist

from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.transfers import COLLECTIVES_PER_BLOCK
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.job import JobPlan

SPREAD = 0.1  # of the logarithm of the step, among runs of one kind that do not stall
ROOMY_SHARE = 0.7  # of the GPU's memory: up to there no run was seen to stall for want of it
_HALVINGS = 40
_HALF = 0.5


def exchanges(plan: JobPlan) -> int:
    """Times in a step that a rank waits for another node, its tensor-parallel collectives left out.

    A stage in the middle of a pipeline has two neighbours, one at its end a single one; before that the first
    micro-batch passes every stage. Without a pipeline it is the gradients of each micro-batch.
    """
    pp = plan.sharding.pp
    return plan.accumulation * min(pp - 1, 2) + pp - 1 if pp > 1 else plan.accumulation


def stall_s(plan: JobPlan, stack: StackRates) -> float:
    """Seconds that a step loses when the job stalls; 0 on one node."""
    if plan.nodes == 1:
        return 0.0
    if plan.sharding.pp == 1 and plan.sharding.tp > plan.gpus_per_node:
        return stack.collective_stall_s * COLLECTIVES_PER_BLOCK * plan.model.layers * plan.accumulation
    return stack.stall_s * exchanges(plan)


def evidence(plan: JobPlan) -> dict[str, float]:
    """Variables that the odds of a stall depend on, by the names of `StackRates.stall_odds`.

    Nodes; nodes of a tensor-parallel group in a job with a pipeline, in doublings; that there is no pipeline; and the
    share of the GPU's memory that the fullest rank takes beyond a roomy one, since an allocator short of room gives
    memory back and asks for it again. That share counts on its own if tensor parallelism crosses nodes without a
    pipeline: there all ranks of a group wait for the one whose allocator does so.
    """
    sharding = plan.sharding
    group_nodes = max(sharding.tp / plan.gpus_per_node, 1)
    beyond = max(_memory_share(plan) - ROOMY_SHARE, 0.0)
    return {
        "base": 1.0,
        "node": float(plan.nodes),
        "tp_nodes_doubled": math.log2(group_nodes) if sharding.pp > 1 else 0.0,
        "no_pipeline": float(sharding.pp == 1),
        "memory_beyond_share": beyond,
        "wide_tp_memory_beyond_share": beyond if group_nodes > 1 and sharding.pp == 1 else 0.0,
    }


@lru_cache(maxsize=4096)
def _memory_share(plan: JobPlan) -> float:
    estimate = memory_estimate(plan)
    return estimate.total_bytes / estimate.capacity_bytes


def stall_chance(plan: JobPlan, stack: StackRates) -> float:
    """Share of such jobs that stall in each step; 0 on one node, and of a stack of which no run is known to."""
    if plan.nodes == 1 or not stack.stall_odds:
        return 0.0
    logarithm = sum(stack.stall_odds[name] * value for name, value in evidence(plan).items())
    return 1 / (1 + math.exp(-logarithm))


def median_s(steady_s: float, stalled_s: float, chance: float) -> float:
    """Median seconds of a step over runs of which the share `chance` stalls.

    Both kinds spread about their own value, so that a small chance lengthens the step to expect by a little.
    """
    if chance == 0 or stalled_s == steady_s:
        return steady_s
    low, high = math.log(steady_s), math.log(stalled_s)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = (1 - chance) * _below(middle, steady_s) + chance * _below(middle, stalled_s)
        low, high = (middle, high) if below < _HALF else (low, middle)
    return math.exp((low + high) / 2)


def _below(logarithm: float, center_s: float) -> float:
    return NormalDist(math.log(center_s), SPREAD).cdf(logarithm)
