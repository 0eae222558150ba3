"""The forecast of `diagnose fit`: memory, step, and the best ways to divide the job if no division is given."""

from dataclasses import dataclass, replace

from diagnose.commands.fit.reasons import division, why
from diagnose.commands.fit.search import Ranked, Search, search
from diagnose.commands.fit.stacks import StackRates, stacks
from diagnose.commands.fit.step_time import PredictedStep, predict_step
from diagnose.errors import UserError
from diagnose.predict.memory.estimate import MemoryEstimate, memory_estimate
from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.remedies import MemoryRemedy, largest_micro_batch, remedies, together

GB = 1e9
SHOWN = 5  # ranked configurations


@dataclass(frozen=True)
class Forecast:
    """Forecast of a job before it runs.

    Attributes:
        plan: the job to launch.
        stack: whose rates predict its step.
        estimate: memory of the fullest rank.
        step: the predicted optimizer step.
        largest: sequences of the largest micro-batch that fits the plan.
        remedies: changes that make room for larger ones.
        found: the search that the plan is the best of; None if its division was given.
        elsewhere: the best of a stack that divides blocks too, if the plan's own does not; None if none fits.
    """

    plan: JobPlan
    stack: StackRates
    memory: MemoryEstimate
    step: PredictedStep
    largest: int
    remedies: tuple[MemoryRemedy, ...]
    found: Search | None = None
    elsewhere: Ranked | None = None

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """Why this plan, in three steps; empty if its division was given."""
        return why(self.found, self.memory.headroom_bytes / GB) if self.found else []

    @property
    def helpful_remedies(self) -> tuple[MemoryRemedy, ...]:
        """Remedies of the stack that admit a larger micro-batch than fits without them."""
        stages = (*self.stack.zero_stages, self.plan.sharding.zero)
        larger = (remedy for remedy in self.remedies if remedy.largest_micro_batch > self.largest)
        return tuple(remedy for remedy in larger if remedy.plan.sharding.zero in stages)

    @property
    def several_remedies(self) -> tuple[tuple[str, ...], int]:
        """Changes that together make room for one sequence if none does alone, and the largest micro-batch with them.

        It is 0 if not even all of them make room.
        """
        names, plan = together(self.plan, self.stack.zero_stages)
        return names, largest_micro_batch(plan)


def forecast(
    plan: JobPlan, stack: StackRates, found: Search | None = None, elsewhere: Ranked | None = None
) -> Forecast:
    """The forecast of a plan as it stands.

    Raises:
        UserError: the board has no peak in the plan's precision.
    """
    step, largest = predict_step(plan, stack), largest_micro_batch(plan)
    return Forecast(plan, stack, memory_estimate(plan), step, largest, remedies(plan), found, elsewhere)


def best_forecast(plan: JobPlan, stack: StackRates, global_batch: int) -> Forecast:
    """The forecast of the fastest way to divide the plan's job for a global batch.

    Raises:
        UserError: nothing fits, or no division reaches the global batch.
    """
    found = _search(plan, stack, global_batch)
    elsewhere = None
    if not stack.divides_blocks:
        other = next(other for other in stacks().values() if other.divides_blocks)
        best = _search(replace(plan, dtype=other.dtype, stack=other.name), other, global_batch).ranked
        elsewhere = best[0] if best else None
    if not found.ranked:
        raise _nothing_fits(plan, stack, found, elsewhere)
    return forecast(found.ranked[0].plan, stack, found, elsewhere)


def _search(plan: JobPlan, stack: StackRates, global_batch: int) -> Search:
    return search(plan, stack, global_batch, lambda candidate: memory_estimate(candidate).fits.margin_bytes >= 0)


def _nothing_fits(plan: JobPlan, stack: StackRates, found: Search, elsewhere: Ranked | None) -> UserError:
    why_not = f"none of the {found.tried} divisions that {stack.name} can launch fits {plan.gpu.key}"
    do = "use more GPUs, a shorter --seq-len, --liger, or an optimizer with fewer state bytes (adamw-8bit)"
    if elsewhere:
        do = f"--stack nanotron fits: {division(elsewhere.plan)}; or {do}"
    return UserError("the job does not fit", where=f"{plan.name} on {plan.gpus} GPUs", why=why_not, do=do)
