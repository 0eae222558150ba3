"""Adapters, experts, and the ranks that share sequences or experts: their options, and their cells in a table."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import click

from diagnose.cli.command import Option
from diagnose.commands.fit.columns import is_yes
from diagnose.commands.fit.stacks import StackRates
from diagnose.errors import UserError, WrongUsage
from diagnose.predict.memory.adapters import ALL_LINEAR, USUAL_TARGETS, Adapters
from diagnose.predict.memory.job import EXPERT_PRODUCTS, MOST, JobPlan, Sharding

_COUNT = click.IntRange(1, MOST)
_OPTIONS = (
    click.option("--cp", type=_COUNT, help="Let N ranks share each sequence (context parallelism)."),
    click.option("--ep", type=_COUNT, help="Let N ranks share the experts of a mixture (expert parallelism)."),
    click.option(
        "--experts",
        type=click.Choice(EXPERT_PRODUCTS),
        help="Multiply a mixture's experts this way (default: as the stack does; transformers 4 has a loop).",
    ),
    click.option("--lora-rank", type=_COUNT, help="Train adapters of this rank (LoRA) and freeze the weights."),
    click.option(
        "--lora-targets",
        cls=Option,
        needs="lora_rank",
        because="without adapters nothing is targeted",
        help=f"Adapt these matrices, with commas between, or {ALL_LINEAR} (default: {','.join(USUAL_TARGETS)}).",
    ),
    click.option(
        "--qlora",
        cls=Option,
        needs="lora_rank",
        because="only frozen weights are kept in 4 bits",
        is_flag=True,
        help="Keep the frozen weights in 4 bits (QLoRA).",
    ),
)
Command = Callable[..., Any]


def feature_options(command: Command) -> Command:
    """The command with these options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def features_of(given: Mapping[str, Any], stack: StackRates, experts: int) -> dict[str, Any]:
    """The plan's fields that the options state.

    Args:
        given: the options.
        stack: the training stack.
        experts: of the model's mixtures; 0 for a dense model.

    Raises:
        WrongUsage: experts are to be multiplied in some way, and there are none.
    """
    if given.get("experts") and not experts:
        raise WrongUsage("--experts has no effect", where="a dense model", why="it has no experts", do="leave it out")
    targets = given.get("lora_targets")
    return _features(given.get("experts"), stack, given.get("lora_rank"), targets, bool(given.get("qlora")))


def features_of_cells(cells: Mapping[str, str], stack: StackRates) -> dict[str, Any]:
    """The plan's fields that a table's row states.

    Raises:
        UserError: the rank is no number.
    """
    rank = cells.get("lora_rank") or "0"
    if not rank.isdigit() or int(rank) > MOST:
        raise UserError("lora_rank must be a whole number", where=repr(rank))
    quantized = is_yes(cells.get("qlora", ""))
    return _features(cells.get("experts"), stack, int(rank), cells.get("lora_targets"), quantized)


def _features(
    experts: str | None, stack: StackRates, rank: int | None, targets: str | None, quantized: bool
) -> dict[str, Any]:
    names = tuple(name.strip() for name in (targets or "").split(",") if name.strip()) or USUAL_TARGETS
    adapters = Adapters(rank, names, quantized) if rank else None
    return {"expert_products": experts or stack.expert_products, "adapters": adapters}


def shared_degrees(plan: JobPlan, stack: StackRates, sharding: Sharding) -> Iterator[Sharding]:
    """The division with the ranks that share sequences as stated, and those that share experts as stated or searched.

    Expert parallelism is searched where the stack has it: none, over a node, and over twice as many ranks again and
    again. Context parallelism never is.
    """
    cp, ep = plan.sharding.cp, plan.sharding.ep
    if sharding.dp % cp:
        return
    shared = replace(sharding, dp=sharding.dp // cp, cp=cp)
    searched = ep == 1 and stack.divides_experts and plan.model.experts
    most = min(sharding.dp * sharding.tp, plan.model.experts)
    least = min(plan.gpus_per_node, most)
    doublings = [1 << power for power in range(most.bit_length()) if 1 << power >= least]
    for degree in sorted({1, *doublings}) if searched else [ep]:
        yield replace(shared, ep=degree)


def told(plan: JobPlan) -> list[str]:
    """The adapters and the experts of a plan in words."""
    words = []
    if plan.adapters:
        kept = ", weights in 4 bits" if plan.adapters.quantized else ""
        words.append(f"LoRA of rank {plan.adapters.rank} on {', '.join(plan.adapters.targets)}{kept}")
    if plan.model.experts:
        how = "one by one in a loop" if plan.expert_products == "loop" else "in grouped products"
        words.append(f"{plan.model.experts_per_token} of {plan.model.experts} experts {how}")
    return words
