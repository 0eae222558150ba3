"""Predict the time of an optimizer step before it runs: parts that add up, with the rates of a training stack."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist

from diagnose.commands.fit.adapters import trained_share
from diagnose.commands.fit.calibration import Calibration, Steps, calibration_of
from diagnose.commands.fit.mfu_as import counted_flops_per_token, counted_peak_flops
from diagnose.commands.fit.stacks import WIDE_NODES, StackRates
from diagnose.commands.fit.stage_time import Board, board_of, stage_parameters, stage_parts, stages
from diagnose.commands.fit.transfers import (
    COLLECTIVES_PER_BLOCK,
    copied_bytes,
    exposed_s,
    gathering_s,
    gathers,
    reduction_s,
    shard_latency_s,
)
from diagnose.formulas.model_flops import mfu_share
from diagnose.predict.memory.estimate import memory_estimate, optimizer_bytes
from diagnose.predict.memory.job import JobPlan

_BACKWARD_SHARE = 2 / 3  # of a micro-batch: what the reduction of gradients can hide behind
_BEYOND = 0.1  # share of runs that are faster than the fast end of the range, and slower than the slow one


@dataclass(frozen=True)
class PredictedStep:
    """A predicted optimizer step.

    Attributes:
        parts: seconds by name, of the stage that takes longest; they add up to `step_s`.
        plan: the job.
        stack: whose rates predict it.
        stall_chance: share of measured runs of this kind that stalled in every micro-batch.
        stalled_s: seconds of the step when it does.
    """

    parts: Mapping[str, float]
    plan: JobPlan
    stack: StackRates
    stall_chance: float
    stalled_s: float

    @cached_property
    def calibration(self) -> Calibration:
        """The range of the step, and the measured runs that it rests on."""
        steps = Steps(
            steady_with=lambda stack: sum(_parts(self.plan, stack, board_of(self.plan)).values()),
            steady_s=self.steady_s,
            likely_s=self.step_s,
            best_s=self.stalled_s if self.stall_chance > 1 - _BEYOND else self.steady_s,
            worst_s=self.stalled_s if self.stall_chance > _BEYOND else self.steady_s,
        )
        return calibration_of(self.plan, self.stack, regime(self.plan), steps)

    @property
    def fastest_s(self) -> float:
        """Seconds when it goes well."""
        return self.calibration.low_s

    @property
    def slowest_s(self) -> float:
        """Seconds when it goes badly."""
        return self.calibration.high_s

    @property
    def tokens(self) -> int:
        """Tokens of the step."""
        return self.plan.tokens_per_step

    @property
    def gpus(self) -> int:
        """GPUs that run it."""
        return self.plan.gpus

    @property
    def mfu_as(self) -> str:
        """The project whose count `model_flops` and `peak_flops` are, one of `MFU_AS`."""
        return self.stack.mfu_as

    @property
    def model_flops(self) -> float:
        """Model FLOPs of the step."""
        return counted_flops_per_token(self.plan, self.mfu_as) * self.tokens

    @property
    def peak_flops(self) -> float:
        """Dense peak of a GPU that MFU is a share of."""
        return counted_peak_flops(self.plan, self.mfu_as)

    @property
    def step_s(self) -> float:
        """Seconds of the step."""
        return sum(self.parts.values())

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of the job."""
        return self.tokens / self.step_s

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens per second of a GPU."""
        return self.tokens_per_s / self.gpus

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation, as a share of the peak."""
        return mfu_share(self.model_flops, self.step_s, self.gpus * self.peak_flops)

    @property
    def expected_tokens_per_s(self) -> float:
        """Mean tokens per second over runs, of which some stall."""
        return self.tokens * ((1 - self.stall_chance) / self.steady_s + self.stall_chance / self.stalled_s)

    @property
    def steady_s(self) -> float:
        """Seconds of the step of a run that does not stall."""
        return self.step_s - self.parts["stalls"]


def predict_step(plan: JobPlan, stack: StackRates) -> PredictedStep:
    """The optimizer step of a plan.

    A pipeline's step is its slowest stage once for each micro-batch, and every other stage once for the first one
    (Narayanan et al. 2021).

    Raises:
        UserError: the board has no peak in the plan's precision.
    """
    board = board_of(plan)
    parts = _parts(plan, stack, board)
    steady_s = sum(parts.values())
    stalled_s, chance = steady_s + stall_s(plan, stack), stall_chance(plan, stack)
    parts["stalls"] = median_s(steady_s, stalled_s, chance) - steady_s
    return PredictedStep(parts, plan, stack, chance, stalled_s)


def _parts(plan: JobPlan, stack: StackRates, board: Board) -> dict[str, float]:
    """Seconds of the step by name, without stalls."""
    pipeline = stages(plan)
    by_kind = {stage: stage_parts(plan, stack, board, stage) for stage in set(pipeline)}
    times = [sum(by_kind[stage].values()) for stage in pipeline]
    slowest = max(range(len(times)), key=times.__getitem__)
    parts = {name: seconds * plan.accumulation for name, seconds in by_kind[pipeline[slowest]].items()}
    parts["pipeline bubble"] = sum(times) - times[slowest]
    waits = _COUPLED if gathers(plan) else 1.0
    parts["waiting for the slowest rank"] = waits * stack.rank_spread * slowest_of(plan.gpus) * sum(parts.values())
    parameters = max(stage_parameters(plan, stage) for stage in by_kind)
    parts["data-parallel transfers"] = _data_parallel_s(plan, stack, parameters, times[slowest])
    parts["copies for transfers"] = copied_bytes(plan, parameters) / board.memory_bytes_per_s
    owned = trained_share(plan) * parameters / (plan.sharding.shards if plan.sharding.zero else 1)
    parts["optimizer"] = stack.optimizer_passes * owned * _state_bytes(plan) / board.memory_bytes_per_s
    parts["once a step"] = stack.step_s
    return parts


def _state_bytes(plan: JobPlan) -> float:
    """Bytes that the optimizer's step reads or writes for each parameter: weights, gradients and its own states."""
    precision = plan.precision
    held = precision.weight_bytes + precision.master_bytes + precision.gradient_bytes
    return held + optimizer_bytes(plan)


def _data_parallel_s(plan: JobPlan, stack: StackRates, parameters: float, micro_batch_s: float) -> float:
    """Seconds of transfers once per step: gradients, unless each micro-batch reduces them, and then the new weights.

    The gradients of the embedding, which the backward pass comes to last, have nothing to hide behind.
    """
    zero, behind_s = plan.sharding.zero, _BACKWARD_SHARE * micro_batch_s
    seconds = 0.0
    if zero < 2:
        hides = zero == 0 and plan.sharding.pp == 1
        share = stack.reduce_exposed_share if hides else stack.gather_exposed_share
        last = min(plan.model.embedding_parameters / plan.sharding.tp, parameters) if hides else 0.0
        seconds += exposed_s(reduction_s(plan, stack, parameters - last), share, behind_s)
        seconds += reduction_s(plan, stack, last)
    if zero in (1, 2) and not plan.gathers_once:
        seconds += stack.gather_exposed_share * gathering_s(plan, stack, parameters)
        seconds += shard_latency_s(plan, stack)
    return seconds


_COUPLED = 1.5  # an assumption: ranks that gather each block wait for each other more often than once a step


def slowest_of(ranks: int) -> float:
    """How many standard deviations the slowest of so many ranks is behind the average one (Blom 1958)."""
    return NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))


def regime(plan: JobPlan) -> str:
    """Name of the stack's span that applies to the plan."""
    if plan.nodes >= WIDE_NODES:
        return "wide"
    if plan.nodes == 1:
        return "node"
    return "pipeline" if plan.sharding.pp > 1 else "nodes"


# Jobs between nodes that stall: their probability, the lost time, and the step to expect when some of them do.

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
