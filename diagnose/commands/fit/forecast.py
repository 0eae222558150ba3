"""The forecast of `diagnose fit`: memory, step, and the best ways to divide the job if no division is given."""

from dataclasses import dataclass, replace

from diagnose.commands.fit.advice import Change, Sharded, best_change, compared, remedies_of
from diagnose.commands.fit.bill import Bill, BillQuestion, Counted
from diagnose.commands.fit.dtypes import default_dtype
from diagnose.commands.fit.reasons import division, why
from diagnose.commands.fit.search import Ranked, Search, Stated, search
from diagnose.commands.fit.stacks import StackRates, stacks
from diagnose.commands.fit.step_time import PredictedStep, predict_step
from diagnose.errors import UserError
from diagnose.predict.memory.estimate import MemoryEstimate, memory_estimate
from diagnose.predict.memory.fits import Fits
from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.remedies import MemoryRemedy, largest_micro_batch, together

GB = 1e9
SHOWN = 5  # ranked configurations


@dataclass(frozen=True)
class Forecast:
    """Forecast of a job before it runs.

    Attributes:
        plan: the job to launch.
        stack: whose rates predict its step.
        memory: of the fullest rank.
        step: the predicted optimizer step.
        largest: sequences of the largest micro-batch that fits the plan.
        remedies: changes that make room for larger ones.
        change: the single change that makes it fastest; None if none does.
        sharded: the plan under each ZeRO stage; empty on one data-parallel rank.
        fixed: what was stated, in words.
        found: the search that the plan is the best of; None if its division was given.
        elsewhere: the best of a stack that divides blocks too, if the plan's own does not; None if none fits.
        question: what is asked about its cost; None if nothing is.
        counted: the numbers of GPUs among which its own was chosen; None if it was stated.
    """

    plan: JobPlan
    stack: StackRates
    memory: MemoryEstimate
    step: PredictedStep
    largest: int
    remedies: tuple[MemoryRemedy, ...]
    change: Change | None
    sharded: tuple[Sharded, ...]
    fixed: tuple[str, ...] = ()
    found: Search | None = None
    elsewhere: Ranked | None = None
    question: BillQuestion | None = None
    counted: Counted | None = None

    @property
    def fits(self) -> Fits:
        """Whether the GPU has as much memory."""
        return self.memory.fits

    @property
    def bills(self) -> tuple[Bill, ...]:
        """The bills of the best configurations, or of the only one; empty if nothing is asked about the cost."""
        if self.question is None:
            return ()
        steps = [entry.step for entry in self.found.ranked[:SHOWN]] if self.found else [self.step]
        return tuple(Bill(step, self.question) for step in steps)

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """Why this plan, in three steps; empty if its division was given."""
        return why(self.found, self.memory.headroom_bytes / GB) if self.found else []

    @property
    def helpful_remedies(self) -> tuple[MemoryRemedy, ...]:
        """Remedies that admit a larger micro-batch than fits without them."""
        return tuple(remedy for remedy in self.remedies if remedy.largest_micro_batch > self.largest)

    @property
    def several_remedies(self) -> tuple[tuple[str, ...], int]:
        """Changes that together make room for one sequence if none does alone, and the largest micro-batch with them.

        It is 0 if not even all of them make room.
        """
        names, plan = together(self.plan, self.stack.zero_stages)
        return names, largest_micro_batch(plan)

    @property
    def tf32_gain(self) -> float | None:
        """Factor of the throughput with TF32, if products run in fp32; None if they do not."""
        if self.plan.dtype != "fp32" or not self.plan.gpu.tf32_tflops:
            return None
        return self.step.step_s / predict_step(replace(self.plan, dtype="tf32"), self.stack).step_s


def forecast(
    plan: JobPlan,
    stack: StackRates,
    stated: Stated,
    found: Search | None = None,
    elsewhere: Ranked | None = None,
) -> Forecast:
    """The forecast of a plan as it stands.

    Raises:
        UserError: the board has no peak in the plan's precision.
    """
    step, known = predict_step(plan, stack), remedies_of(plan, stack)
    return Forecast(
        plan=plan,
        stack=stack,
        memory=memory_estimate(plan),
        step=step,
        largest=largest_micro_batch(plan),
        remedies=known,
        change=best_change(plan, stack, step, known, stated.opens_batch and found is None),
        sharded=compared(plan, stack),
        found=found,
        elsewhere=elsewhere,
    )


def best_forecast(plan: JobPlan, stack: StackRates, stated: Stated) -> Forecast:
    """The forecast of the fastest way to run the plan's job, as far as it is not stated.

    Raises:
        UserError: nothing fits, or no division reaches the stated batch.
    """
    found = _search(plan, stack, stated)
    elsewhere = None if stack.divides_blocks else _elsewhere(plan, stack, stated)
    if not found.ranked:
        raise _nothing_fits(plan, stack, found, elsewhere)
    return forecast(found.ranked[0].plan, stack, stated, found, elsewhere)


def best_ranked(plan: JobPlan, stack: StackRates, stated: Stated) -> Ranked:
    """The fastest way to run the plan's job, as far as it is not stated.

    Raises:
        UserError: nothing fits, or no division reaches the stated batch.
    """
    found = _search(plan, stack, stated)
    if not found.ranked:
        raise _nothing_fits(plan, stack, found, None)
    return found.ranked[0]


def _elsewhere(plan: JobPlan, stack: StackRates, stated: Stated) -> Ranked | None:
    """The best plan of a stack that divides blocks, in its own precision where the job's is its stack's."""
    other = next(other for other in stacks().values() if other.divides_blocks)
    its_own = plan.dtype == default_dtype(stack, plan.gpu)
    there = replace(
        plan,
        dtype=default_dtype(other, plan.gpu) if its_own else plan.dtype,
        liger=False,
        compiled=False,
        expert_products=other.expert_products,
        stack=other.name,
    )
    try:
        best = _search(there, other, stated).ranked
    except UserError:
        return None
    return best[0] if best else None


def _search(plan: JobPlan, stack: StackRates, stated: Stated) -> Search:
    return search(plan, stack, stated, _how_surely)


def _how_surely(plan: JobPlan) -> int:
    """3 if the plan fits, 2 if it likely does, 1 if it may; 0 if it does not."""
    fits = memory_estimate(plan).fits
    return 3 if fits.answer == "yes" else 2 if fits.margin_bytes >= 0 else int(fits.runs)


def _nothing_fits(plan: JobPlan, stack: StackRates, found: Search, elsewhere: Ranked | None) -> UserError:
    why_not = f"none of the {found.tried} configurations that {stack.name} can launch fits {plan.gpu.key}"
    do = "use more GPUs, a shorter --seq-len, a smaller --micro-batch, or --optimizer adamw-8bit"
    if elsewhere:
        do = f"--stack nanotron fits: {division(elsewhere.plan)}; or {do}"
    return UserError("the job does not fit", where=f"{plan.name} on {plan.gpus} GPUs", why=why_not, do=do)
