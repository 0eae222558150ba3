"""Search for the fastest way to run a job over its GPUs: what is stated stays, and what is free is varied."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from diagnose.commands.fit.features import shared_degrees
from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.step_time import PredictedStep, predict_step
from diagnose.commands.fit.switches import switched_on, variants
from diagnose.errors import UserError, WrongUsage
from diagnose.predict.memory.job import JobPlan, Sharding, divisors
from diagnose.predict.memory.remedies import largest_micro_batch

HowSurely = Callable[[JobPlan], int]
_SEQUENCES = 256  # of a global batch that nobody states


@dataclass(frozen=True)
class Stated:
    """The stated part of the job, which stays as it is.

    Attributes:
        micro_batch: sequences that a rank computes at once; None leaves them open, as for the two below.
        accumulation: micro-batches of an optimizer step.
        global_batch: sequences of an optimizer step.
        switches: attributes of the plan, of `SWITCHES`.
    """

    micro_batch: int | None = None
    accumulation: int | None = None
    global_batch: int | None = None
    switches: frozenset[str] = frozenset()

    @property
    def opens_batch(self) -> bool:
        """Whether the micro-batch may be as large as fits, since nothing of the batch but its accumulation is given."""
        return self.micro_batch is None and self.global_batch is None

    def sequences(self, gpus: int) -> int | None:
        """The global batch: as stated, else what one micro-batch on each GPU makes, else 256; None if it is open."""
        if self.global_batch is not None:
            return self.global_batch
        if self.accumulation is not None:
            return None
        return gpus * self.micro_batch if self.micro_batch else -(-_SEQUENCES // gpus) * gpus


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
        varied: in what the tried ones differ.
    """

    ranked: tuple[Ranked, ...]
    tried: int
    fitting: int
    varied: tuple[str, ...] = ()

    def loss(self, place: int) -> float:
        """Loss of the configuration at that place, as a share of the best one's throughput."""
        return 1 - self.ranked[place].step.expected_tokens_per_s / self.ranked[0].step.expected_tokens_per_s


def search(plan: JobPlan, stack: StackRates, stated: Stated, how_surely: HowSurely) -> Search:
    """The best configurations of the plan's job.

    Tried are all divisions of the stack into dp x tp x pp with tensor parallelism inside a node, its ZeRO stages, every
    micro-batch that reaches the global batch, and the switches that change something. They are ranked by the mean
    throughput of runs, those that stall included; of equally fast ones the plainest is first.

    Args:
        plan: the job; its sharding, and what is not stated, are what is searched.
        stack: the training stack.
        stated: what stays as it is.
        how_surely: the memory of a plan fits, 0 if it does not; only the surest are ranked.

    Raises:
        UserError: no division reaches the batch that is stated.
    """
    candidates = list(_candidates(plan, stack, stated, how_surely))
    if not candidates:
        raise _out_of_reach(plan, stated)
    surest = max(sure for _, sure in candidates)
    fitting = [candidate for candidate, sure in candidates if sure == surest and sure]
    ranked = [Ranked(candidate, predict_step(candidate, stack)) for candidate in fitting]
    ranked.sort(
        key=lambda entry: (-entry.step.expected_tokens_per_s, entry.plan.sharding.zero, switched_on(entry.plan))
    )
    varied = _varied([candidate for candidate, _ in candidates])
    return Search(_distinct(ranked), len(candidates), sum(sure > 0 for _, sure in candidates), varied)


def _candidates(
    plan: JobPlan, stack: StackRates, stated: Stated, how_surely: HowSurely
) -> Iterator[tuple[JobPlan, int]]:
    """The configurations and how surely they fit; of one that does not, larger micro-batches are not tried."""
    for sharding in shardings(plan, stack):
        for variant in variants(replace(plan, sharding=sharding), stack, stated.switches):
            for micro_batch, accumulation in _batches(variant, stated):
                candidate = replace(variant, micro_batch=micro_batch, accumulation=accumulation)
                sure = how_surely(candidate)
                yield candidate, sure
                if not sure:
                    break


def _batches(plan: JobPlan, stated: Stated) -> Iterator[tuple[int, int]]:
    """Micro-batches and accumulations that make the global batch; if it is open, the largest micro-batch that fits."""
    dp, wanted = plan.sharding.dp, stated.sequences(plan.gpus // plan.sharding.cp)
    if wanted is None:
        yield stated.micro_batch or max(largest_micro_batch(plan), 1), plan.accumulation
    elif wanted % dp == 0:
        for micro_batch in divisors(wanted // dp):
            accumulation = wanted // dp // micro_batch
            if micro_batch == (stated.micro_batch or micro_batch) and accumulation == (
                stated.accumulation or accumulation
            ):
                yield micro_batch, accumulation


def _out_of_reach(plan: JobPlan, stated: Stated) -> UserError:
    parts = {"micro-batch": stated.micro_batch, "accumulation": stated.accumulation}
    given = {name: count for name, count in parts.items() if count}
    what = " and ".join(f"the stated {name}" for name in given)
    ranks = plan.gpus // plan.sharding.cp  # that can take a sequence each
    where = ", ".join([f"{stated.sequences(ranks)} sequences", *(f"{name} {count}" for name, count in given.items())])
    do = f"use a multiple of {ranks} sequences, or other GPUs"
    if given:
        each = (stated.micro_batch or 1) * (stated.accumulation or 1)
        do = f"use dp x {' x '.join(map(str, given.values()))} sequences, such as {ranks * each}, or leave one out"
    with_ = f" with {what}" if what else ""
    return WrongUsage(f"no division of the job reaches the global batch{with_}", where=where, do=do)


def shardings(plan: JobPlan, stack: StackRates) -> Iterator[Sharding]:
    """Every division that the model and the stack allow.

    ZeRO divides among data-parallel ranks, in a pipeline only optimizer states: gradients and weights would be
    reduced and gathered again with each micro-batch.
    """
    for tp, pp in _block_divisions(plan) if stack.divides_blocks else [(1, 1)]:
        dp = plan.gpus // (tp * pp)
        for zero in stack.zero_stages if dp > 1 else (0,):
            whole = Sharding(dp, tp, pp, zero, uneven_stages=stack.uneven_stages)
            for sharding in shared_degrees(plan, stack, whole):
                if (pp == 1 or zero < 2) and _can_be_launched(plan, sharding):
                    yield sharding


def _block_divisions(plan: JobPlan) -> Iterator[tuple[int, int]]:
    """Ranks of tensor parallelism inside a node, and pipeline stages."""
    for tp in divisors(plan.gpus_per_node):
        for pp in range(1, min(plan.model.layers, plan.gpus) + 1):
            if plan.gpus % (tp * pp) == 0:
                yield tp, pp


def _can_be_launched(plan: JobPlan, sharding: Sharding) -> bool:
    try:
        replace(plan, sharding=sharding)
    except UserError:
        return False
    return True


def _varied(candidates: Sequence[JobPlan]) -> tuple[str, ...]:
    """The words for what differs among the candidates."""
    values: dict[str, Callable[[JobPlan], object]] = {
        "dp x tp x pp": lambda plan: (plan.sharding.dp, plan.sharding.tp, plan.sharding.pp),
        "ZeRO stage": lambda plan: plan.sharding.zero,
        "micro-batch": lambda plan: plan.micro_batch,
        "accumulation": lambda plan: plan.accumulation,
        "attention": lambda plan: plan.attention,
        "checkpointing": lambda plan: plan.checkpointing,
        "Liger": lambda plan: plan.liger,
        "torch.compile": lambda plan: plan.compiled,
    }
    return tuple(name for name, value in values.items() if len({value(plan) for plan in candidates}) > 1)


def _distinct(ranked: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """The best micro-batch and switches of each sharding."""
    best: dict[Sharding, Ranked] = {}
    for entry in ranked:
        best.setdefault(entry.plan.sharding, entry)
    return tuple(best.values())
