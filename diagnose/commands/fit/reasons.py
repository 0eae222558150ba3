"""Reasons for a configuration, in a textbook's three steps: fit, reach the global batch, throughput."""

from diagnose.commands.fit.search import Ranked, Search
from diagnose.commands.fit.step_time import PredictedStep
from diagnose.predict.memory.job import ZERO_STAGES, JobPlan

_SMALL = 0.02  # share of the step from which a part is named
_MOST_NAMED = 3
_NEARLY_ALL = 0.99


def division(plan: JobPlan) -> str:
    """The division of the GPUs in a few words."""
    sharding = plan.sharding
    degrees = {"tp": sharding.tp, "pp": sharding.pp, "cp": sharding.cp, "ep": sharding.ep}
    kinds = [f"{name}={count}" for name, count in degrees.items() if count > 1]
    zero = f" {ZERO_STAGES[sharding.zero].split(' or ')[0]}" if sharding.data_ranks > 1 else ""
    return " ".join([f"dp={sharding.dp}", *kinds]) + zero


def switches(plan: JobPlan) -> list[str]:
    """The switches that depart from the plain job, in words."""
    told = {
        f"{plan.attention} attention": plan.attention != "sdpa",
        "Liger": plan.liger,
        "torch.compile": plan.compiled,
        f"checkpointing {plan.checkpointing}": plan.checkpointing != "none",
    }
    return [name for name, is_on in told.items() if is_on]


def batch(plan: JobPlan) -> str:
    """The product that makes the global batch."""
    parts = f"{plan.micro_batch} x {plan.accumulation} x {plan.sharding.dp}"
    return f"{plan.global_batch} sequences = micro-batch x accumulation x dp = {parts}"


def largest_losses(step: PredictedStep) -> list[tuple[str, float]]:
    """The largest parts of the step other than matrix products and attention, each with its share of the step."""
    shares = {name: seconds / step.step_s for name, seconds in step.parts.items()}
    named = [(name, share) for name, share in shares.items() if name not in ("matrix products", "attention")]
    return sorted((entry for entry in named if entry[1] >= _SMALL), key=lambda entry: -entry[1])[:_MOST_NAMED]


def percent(share: float, digits: int = 1) -> str:
    """A share as reports write it."""
    return f"{100 * share:.{digits}f} %"


def chance(step: PredictedStep) -> str:
    """The probability of a stall as text; an estimate is never certain."""
    return "over 99 %" if step.stall_chance > _NEARLY_ALL else percent(step.stall_chance, 0)


def why(found: Search, headroom_gb: float) -> list[tuple[str, str]]:
    """The three steps for the best configuration, each as (step, reason)."""
    best = found.ranked[0]
    return [
        ("fit", f"{found.fitting} of {found.tried} configurations fit; this one leaves {headroom_gb:.1f} GB"),
        ("batch", batch(best.plan)),
        ("throughput", _throughput(found, best)),
    ]


def _throughput(found: Search, best: Ranked) -> str:
    stalls = f"; {chance(best.step)} of such jobs stall, which the ranking counts as a mean over runs"
    risk = stalls if best.step.stall_chance else ""
    losses = ", ".join(f"{name} {percent(share, 0)}" for name, share in largest_losses(best.step))
    text = (f"beside the arithmetic, of the step: {losses}" if losses else "the step is arithmetic") + risk
    if len(found.ranked) == 1:
        return text
    return f"{text}; the next best, {division(found.ranked[1].plan)}, is {percent(found.loss(1))} slower"
