"""Search for the fastest of the ways to divide a job over its GPUs, and the loss of the next best."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.step_time import PredictedStep, predict_step
from diagnose.errors import UserError, WrongUsage
from diagnose.predict.memory.job import Checkpointing, JobPlan, Sharding

Fits = Callable[[JobPlan], bool]
LARGEST_MICRO_BATCH = 64


@dataclass(frozen=True)
class Ranked:
    """A configuration with its predicted step."""

    plan: JobPlan
    step: PredictedStep


@dataclass(frozen=True)
class Search:
    """The result of a search.

    Attributes:
        ranked: configurations that fit, the fastest first; each number of stages, shards and ZeRO stage once.
        tried: configurations that can be launched.
        fitting: of them, those whose memory fits.
    """

    ranked: tuple[Ranked, ...]
    tried: int
    fitting: int

    def loss(self, place: int) -> float:
        """Loss of the configuration at that place, as a share of the best one's throughput."""
        return 1 - self.ranked[place].step.expected_tokens_per_s / self.ranked[0].step.expected_tokens_per_s


def search(plan: JobPlan, stack: StackRates, global_batch: int, fits: Fits) -> Search:
    """The best configurations of the plan's job for a global batch.

    Tried are all divisions of the stack into dp x tp x pp with tensor parallelism inside a node, its ZeRO stages,
    micro-batches of powers of two that reach the global batch, and checkpointing. They are ranked by the mean
    throughput of runs, those that stall included.

    Args:
        plan: the job; its sharding, micro-batch, accumulation and checkpointing are what is searched.
        stack: the training stack.
        global_batch: sequences of an optimizer step.
        fits: whether a plan's memory fits.

    Raises:
        UserError: no division reaches the global batch.
    """
    candidates = list(_candidates(plan, stack, global_batch))
    if not candidates:
        do = f"use a multiple of {plan.gpus} sequences, or other GPUs"
        raise WrongUsage("no division of the job reaches the global batch", where=f"{global_batch} sequences", do=do)
    fitting = [candidate for candidate in candidates if fits(candidate)]
    ranked = [Ranked(candidate, predict_step(candidate, stack)) for candidate in fitting]
    ranked.sort(key=lambda entry: -entry.step.expected_tokens_per_s)
    return Search(_distinct(ranked), len(candidates), len(fitting))


def _candidates(plan: JobPlan, stack: StackRates, global_batch: int) -> Iterator[JobPlan]:
    for sharding in shardings(plan, stack):
        for micro_batch in _powers_of_two(LARGEST_MICRO_BATCH):
            if global_batch % (sharding.dp * micro_batch):
                continue
            accumulation = global_batch // (sharding.dp * micro_batch)
            for checkpointing in _checkpointings(plan):
                yield replace(
                    plan,
                    sharding=sharding,
                    micro_batch=micro_batch,
                    accumulation=accumulation,
                    checkpointing=checkpointing,
                )


def shardings(plan: JobPlan, stack: StackRates) -> Iterator[Sharding]:
    """Every division that the model and the stack allow.

    ZeRO divides among data-parallel ranks, in a pipeline only optimizer states: gradients and weights would be
    reduced and gathered again with each micro-batch.
    """
    for tp, pp in _block_divisions(plan) if stack.divides_blocks else [(1, 1)]:
        dp = plan.gpus // (tp * pp)
        for zero in stack.zero_stages if dp > 1 else (0,):
            sharding = Sharding(dp, tp, pp, zero, uneven_stages=stack.uneven_stages)
            if (pp == 1 or zero < 2) and _can_be_launched(plan, sharding):
                yield sharding


def _block_divisions(plan: JobPlan) -> Iterator[tuple[int, int]]:
    """Ranks of tensor parallelism inside a node, and pipeline stages."""
    for tp in _powers_of_two(plan.gpus_per_node):
        for pp in range(1, min(plan.model.layers, plan.gpus) + 1):
            if plan.gpus % (tp * pp) == 0:
                yield tp, pp


def _can_be_launched(plan: JobPlan, sharding: Sharding) -> bool:
    try:
        replace(plan, sharding=sharding)
    except UserError:
        return False
    return True


def _checkpointings(plan: JobPlan) -> Sequence[Checkpointing]:
    return ("none", "full") if plan.checkpointing == "none" else (plan.checkpointing,)


def _powers_of_two(most: int) -> list[int]:
    return [1 << power for power in range(most.bit_length()) if 1 << power <= most]


def _distinct(ranked: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """The best micro-batch and checkpointing of each sharding."""
    best: dict[Sharding, Ranked] = {}
    for entry in ranked:
        best.setdefault(entry.plan.sharding, entry)
    return tuple(best.values())
