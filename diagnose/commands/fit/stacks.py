"""Rates that a training stack reaches on the hardware, fitted on published runs, with their source."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from diagnose.commands.fit.boards import family
from diagnose.errors import WrongUsage
from diagnose.predict.memory.job import ZERO_STAGES, ExpertProducts, JobPlan, Sharding

_DATA = Path(__file__).parents[2] / "data"
_TABLE, _RANGES = _DATA / "training_stacks.toml", _DATA / "step_ranges.toml"
_FEATURES = _DATA / "feature_ranges.toml"
WIDE_NODES = 33  # from here on the one table with such jobs shows a network that stalls


def kinds_of(plan: JobPlan) -> tuple[str, ...]:
    """The ways in which a job is divided, each as it follows "was run"."""
    sharding = plan.sharding
    told = {
        "on one GPU": plan.gpus == 1,
        f"with {ZERO_STAGES[sharding.zero]}": sharding.data_ranks > 1,
        "with tensor parallelism": sharding.tp > 1,
        "with a pipeline": sharding.pp > 1,
        "with context parallelism": sharding.cp > 1,
        "with expert parallelism": sharding.ep > 1,
        "with adapters": plan.adapters is not None,
    }
    return tuple(kind for kind, holds in told.items() if holds)


@dataclass(frozen=True)
class MeasuredRuns:
    """Measured runs of a stack that are alike in board and division.

    Attributes:
        board: key of the board.
        kinds: how they were divided (`kinds_of`).
        experts: their models are mixtures of experts.
        rows: how many they are.
        parameters: smallest and largest number of the models' parameters.
        seq_len: shortest and longest sequence.
        nodes: fewest and most machines.
    """

    board: str
    kinds: tuple[str, ...]
    experts: bool
    rows: int
    parameters: tuple[float, float]
    seq_len: tuple[int, int]
    nodes: tuple[int, int]

    def holds(self, plan: JobPlan) -> bool:
        """Whether a plan is like these runs."""
        sizes = {"parameters": plan.model.parameters, "seq_len": plan.seq_len, "nodes": plan.nodes}
        inside = all(getattr(self, name)[0] <= size <= getattr(self, name)[1] for name, size in sizes.items())
        alike = self.board == plan.gpu.key and self.kinds == kinds_of(plan)
        return alike and self.experts == bool(plan.model.experts) and inside


@dataclass(frozen=True)
class StackRates:
    """The achieved rates of one stack; seconds, bytes and shares as their names say.

    Attributes:
        name: as users type it.
        source: the published runs that the rates were fitted on.
        matrix_share: share of the dense peak that matrix products of endless width reach.
        matrix_half_width: columns of a rank's slice of the hidden width at which half of that is reached.
        attention_share: share of a Hopper board's dense peak that fused attention reaches, with heads of 128 elements,
            on the pairs that a causal mask leaves.
        narrow_head_attention: what of that is left with heads of half the elements.
        ampere_matrix: share that products reach of the peak of a board before Hopper, over that on Hopper.
        ampere_attention: the same of fused attention.
        blackwell_matrix: the same of products on a board after Hopper.
        blackwell_attention: the same of fused attention.
        elementwise_bytes: read and written between the matrix products, forward and backward, for each token, block and
            element of the hidden width.
        logits_bytes: of the loss, for each token and entry of the vocabulary.
        score_bytes: of eager attention, for each pair of tokens and head.
        host_layer_s: the host's time for a block, forward and backward.
        host_layer_tp_s: the same with tensor parallelism.
        host_shard_s: the host's time to gather or reduce what ranks share of a block (FSDP, ZeRO), each time.
        hook_s: time of each parameter's Python hook, which holds up the backward pass (DeepSpeed's ZeRO-1 and 2).
        rank_spread: standard deviation of the time that ranks take for the same work; all wait for the slowest.
        tp_exposed_share: share of tensor-parallel transfers that nothing hides.
        tp_nodes_gbs: bus bandwidth of tensor parallelism between nodes, GB/s times the nodes of a group.
        ring_hop_s: latency of each rank of a tensor-parallel group that spans nodes, in each collective.
        pipeline_hop_s: time that pipelines between nodes add to each rank of each tensor-parallel collective.
        handover_s: of a micro-batch from a stage to the next.
        node_gbs: network of a node that data parallelism reaches, GB/s in one direction.
        half_nodes: nodes of a group at which half of that is reached.
        reduce_exposed_share: share of gradient reduction that the backward pass does not hide.
        gather_exposed_share: the same if ranks hold shards (ZeRO, FSDP).
        optimizer_passes: times that the optimizer moves the bytes of its weights, gradients and states.
        step_s: of each optimizer step whatever its size.
        liger_elementwise: of the elementwise bytes, the share that Liger's kernels leave.
        liger_logits: of the loss's bytes, the share that Liger's fused loss leaves.
        compiled_elementwise: of the elementwise bytes, the share that torch.compile leaves.
        fp8_share: share of the time of the blocks' matrix products that they take in fp8.
        stall_s: of each exchange of a rank with another node, in a job that stalls.
        collective_stall_s: of each tensor-parallel collective between nodes, in a job that stalls.
        stall_odds: the addition of each unit of `step_time.evidence` to the logarithm of the odds of a stall; empty if
        no run is known to stall.
        divides_blocks: it has tensor and pipeline parallelism.
        zero_stages: that it has.
        dtype: that it trains in by default.
        model_prefix: how the short names of its source's models continue the names of the table of models.
        uneven_stages: stages are balanced by weights.
        mfu_as: whose count of model FLOPs its MFU is, one of `MFU_AS`.
        expert_share: of the rate of dense products, what those of experts reach.
        expert_layer_s: the host's time for a mixture's block beyond the operators that transformers launches for it.
        exchange_exposed_share: share of the exchange of experts' tokens that nothing hides.
        context_slowdown: of attention, for each doubling of the ranks that share a sequence.
        expert_products: how it multiplies experts by default.
        fuses_adapters: one kernel computes an adapter.
        wraps_modules: it gathers the weights of adapters, and of what is beside them, module by module.
        divides_experts: it has expert parallelism.
        divides_context: it has context parallelism.
        span: slow and fast end of measured over predicted throughput (10th and 90th percentile), by regime.
        measured: the runs that the rates were fitted on; empty if no run of the stack is known.
        assumed: least and greatest value, by other stacks, of each rate that none of these runs depends on.
        uncertainty: by what a range is wider where a job is unlike all measured ones, by what was never measured.
    """

    name: str
    source: str
    matrix_share: float
    matrix_half_width: float
    attention_share: float
    narrow_head_attention: float
    ampere_matrix: float
    ampere_attention: float
    blackwell_matrix: float
    blackwell_attention: float
    elementwise_bytes: float
    logits_bytes: float
    score_bytes: float
    host_layer_s: float
    host_layer_tp_s: float
    host_shard_s: float
    rank_spread: float
    tp_exposed_share: float
    tp_nodes_gbs: float
    ring_hop_s: float
    pipeline_hop_s: float
    handover_s: float
    node_gbs: float
    half_nodes: float
    reduce_exposed_share: float
    gather_exposed_share: float
    optimizer_passes: float
    step_s: float
    liger_elementwise: float
    liger_logits: float
    compiled_elementwise: float
    fp8_share: float
    stall_s: float
    collective_stall_s: float
    stall_odds: Mapping[str, float]
    divides_blocks: bool
    zero_stages: tuple[int, ...]
    dtype: str
    model_prefix: str
    uneven_stages: bool
    mfu_as: str
    span: Mapping[str, tuple[float, float]]
    measured: tuple[MeasuredRuns, ...]
    assumed: Mapping[str, tuple[float, float]]
    uncertainty: Mapping[str, float]
    hook_s: float = 0.0
    expert_share: float = 1.0
    expert_layer_s: float = 0.0
    exchange_exposed_share: float = 1.0
    context_slowdown: float = 0.0
    expert_products: ExpertProducts = "grouped"
    fuses_adapters: bool = False
    wraps_modules: bool = False
    divides_experts: bool = False
    divides_context: bool = False

    def ran_on(self, board: str) -> bool:
        """Whether a run on a board of that family is among those that the rates were fitted on."""
        return any(family(runs.board) == family(board) for runs in self.measured)

    def with_rates(self, rates: Mapping[str, float]) -> "StackRates":
        """The same stack with some of its rates replaced."""
        return replace(self, **dict(rates))  # type: ignore[arg-type]

    def counting_as(self, mfu_as: str | None) -> "StackRates":
        """The stack with its MFU counted as that project does; the stack's own if none is named."""
        return self if mfu_as is None else replace(self, mfu_as=mfu_as)

    def check(self, sharding: Sharding) -> None:
        """Refuse a division that the stack does not have.

        Raises:
            UserError: it cannot; the message names the possible ones.
        """
        if sharding.tp * sharding.pp > 1 and not self.divides_blocks:
            able = ", ".join(name for name, stack in stacks().items() if stack.divides_blocks)
            where = f"tp={sharding.tp}, pp={sharding.pp}"
            raise WrongUsage(f"{self.name} divides only data", where=where, do=f"--stack may be {able}")
        for name, degree, has in (("cp", sharding.cp, "divides_context"), ("ep", sharding.ep, "divides_experts")):
            if degree > 1 and not getattr(self, has):
                able = ", ".join(name for name, stack in stacks().items() if getattr(stack, has))
                kind = "context" if name == "cp" else "expert"
                raise WrongUsage(
                    f"{self.name} has no {kind} parallelism", where=f"{name}={degree}", do=f"--stack may be {able}"
                )
        if sharding.data_ranks > 1 and sharding.zero not in self.zero_stages:
            allowed = ", ".join(map(str, self.zero_stages))
            others = [other for other in stacks().values() if other.divides_blocks or sharding.tp == sharding.pp == 1]
            names = ", ".join(other.name for other in others if sharding.zero in other.zero_stages)
            do = f"zero may be {allowed}" + (f"; --stack may be {names} for it" if names else "")
            raise WrongUsage(f"{self.name} has no such ZeRO stage", where=sharding.zero, do=do)


RATES = tuple(field.name for field in fields(StackRates) if field.type is float and field.default is MISSING)
"""What a stack's dense runs tell; those with a default only runs of mixtures or of context parallelism do."""


@lru_cache(maxsize=1)
def stacks() -> Mapping[str, StackRates]:
    """Every known stack by name."""
    ranges, features = _read(_RANGES), _read(_FEATURES)
    factors = {name: row["factor"] for name, row in {**ranges["factor"], **features["factor"]}.items()}
    own = {name: dict(ranges["stack"].get(name, {})) for name in _read(_TABLE)}
    for name, more in features["stack"].items():
        own[name]["measured"] = [*own[name].get("measured", ()), *more["measured"]]
    return {name: _stack(name, row, own[name], factors) for name, row in _read(_TABLE).items()}


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


def stack_of(name: str) -> StackRates:
    """The stack of that name.

    Raises:
        UserError: no such stack is known.
    """
    if name not in stacks():
        raise WrongUsage("no such training stack", where=name, do=f"use one of {', '.join(stacks())}")
    return stacks()[name]


def _stack(
    name: str, row: Mapping[str, Any], ranges: Mapping[str, Any], uncertainty: Mapping[str, float]
) -> StackRates:
    span = {regime: (low, high) for regime, (low, high) in row["span"].items()}
    measured = tuple(_measured(each) for each in ranges.get("measured", ()))
    assumed = {rate: (low, high) for rate, (low, high) in ranges.get("assumed", {}).items()}
    stages = tuple(row["zero_stages"])
    own = {"name": name, "span": span, "zero_stages": stages, "measured": measured, "assumed": assumed}
    return StackRates(**{**row, **own, "uncertainty": uncertainty})


def _measured(cells: Mapping[str, Any]) -> MeasuredRuns:
    told: dict[str, Any] = {name: tuple(cell) if isinstance(cell, list) else cell for name, cell in cells.items()}
    return MeasuredRuns(**told)
