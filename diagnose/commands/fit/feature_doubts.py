"""Factors by which experts, adapters and shared sequences widen a step's range beyond that of its stack's rows."""

from collections.abc import Iterator

from diagnose.commands.fit.stacks import StackRates
from diagnose.predict.memory.job import JobPlan

LOOP, GROUPED, ADAPTED, LAUNCHED, QUANTIZED = "expert_loop", "expert_products", "adapters", "launches", "quantized"
CONTEXT = "context"
"""The factors of data/feature_ranges.toml."""
_UNSEEN = 1.5  # how often the factor of grouped products counts on a stack of which no mixture was measured


def feature_doubts(plan: JobPlan, stack: StackRates, host_share: float) -> Iterator[tuple[str, str, float]]:
    """The factor's name, a clause ("" if rows of the stack were measured), and how often the factor counts.

    Args:
        plan: the job.
        stack: the training stack.
        host_share: by how much a host that takes twice as long lengthens the step, 1 for twice.
    """
    if plan.model.experts and plan.expert_products == "loop":
        yield LOOP, "experts in a loop are counted by their launches, which one published run bears out", 1.0
    elif plan.model.experts:
        seen = any(row.experts for row in stack.measured)
        yield GROUPED, "" if seen else f"no row of a mixture of experts with {stack.name}", 1.0 if seen else _UNSEEN
    if plan.sharding.cp > 1:
        yield CONTEXT, "", 1.0
    if plan.adapters:
        yield ADAPTED, "", 1.0
        yield LAUNCHED, "", min(max(host_share, 0.0), 1.0)
        if plan.adapters.quantized:
            yield QUANTIZED, "no row with weights in 4 bits", 1.0
