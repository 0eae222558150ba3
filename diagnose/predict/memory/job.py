"""A training job as it would be launched: a model on GPUs, its batch, its number types, and how it is divided."""

from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import Literal, get_args

from diagnose.errors import WrongUsage
from diagnose.formulas.model import ModelShape
from diagnose.hardware import Gpu
from diagnose.predict.memory.adapters import Adapters, check_adapters
from diagnose.predict.memory.ledgers import Ledger, ledger_of
from diagnose.predict.memory.precision import Optimizer, PrecisionBytes, optimizer_of, precision_of

Attention = Literal["eager", "sdpa", "flash"]
Checkpointing = Literal["none", "selective", "full"]
Schedule = Literal["1f1b", "afab"]
ATTENTIONS: tuple[Attention, ...] = get_args(Attention)
CHECKPOINTINGS: tuple[Checkpointing, ...] = get_args(Checkpointing)
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
ExpertProducts = Literal["grouped", "loop"]
EXPERT_PRODUCTS: tuple[ExpertProducts, ...] = get_args(ExpertProducts)
MOST = 10_000_000  # of anything counted in a job: no job has more, and arithmetic with less stays finite
ZERO_STAGES = {0: "DDP", 1: "ZeRO-1", 2: "ZeRO-2 or FSDP SHARD_GRAD_OP", 3: "ZeRO-3 or FSDP FULL_SHARD"}


@dataclass(frozen=True)
class Sharding:
    """The parallelism of a job over dp x tp x pp x cp GPUs.

    Attributes:
        dp: data-parallel ranks, each with a micro-batch of its own.
        tp: ranks that share every block's matrices (tensor parallelism).
        pp: stages of blocks (pipeline parallelism).
        zero: the state that data-parallel ranks shard: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too.
        replicas: number of copies that are each sharded separately (HSDP); ZeRO divides by dp / replicas.
        sequence_parallel: whether tensors between the matrices of a tensor-parallel block are divided by tp as well.
        schedule: "1f1b" keeps at most pp micro-batches in flight, "afab" (all forward, all backward) all of them.
        cp: ranks that share the tokens of every sequence (context parallelism); ZeRO divides among them, too.
        ep: ranks, of those that share a stage, that divide the experts of every mixture (expert parallelism).
        uneven_stages: whether stages are cut by the work of blocks and head, as nanotron cuts them, so that the first
            ones have more blocks than the last; else pp has to divide the blocks.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    zero: int = 0
    replicas: int = 1
    sequence_parallel: bool = True
    schedule: Schedule = "1f1b"
    uneven_stages: bool = False
    cp: int = 1
    ep: int = 1

    @property
    def gpus(self) -> int:
        """GPUs that it takes."""
        return self.data_ranks * self.tp * self.pp

    @property
    def data_ranks(self) -> int:
        """Ranks with the same weights outside the experts: those with other sequences, or other tokens of the same."""
        return self.dp * self.cp

    @property
    def shards(self) -> int:
        """Number of ranks among which ZeRO shards the state."""
        return self.data_ranks // self.replicas

    @property
    def expert_cut(self) -> int:
        """Ranks among which one copy of a block's experts is divided: whole experts to each with expert parallelism."""
        return self.ep if self.ep > 1 else self.tp

    @property
    def expert_shards(self) -> int:
        """Number of ranks among which ZeRO shards the state of an expert: those that hold the same one."""
        return max(self.shards * self.tp // self.expert_cut, 1)


@dataclass(frozen=True)
class JobPlan:
    """A training job before it runs.

    Attributes:
        name: the model's name.
        model: its sizes.
        gpu: the board, one row of the table.
        gpus: GPUs in all.
        nodes: machines among which they are divided evenly.
        seq_len: tokens of a sequence.
        micro_batch: sequences that a rank computes at once.
        accumulation: micro-batches of a rank in each optimizer step.
        dtype: one of `PRECISIONS`.
        optimizer: one of `OPTIMIZERS`.
        attention: "eager" writes the scores of every pair of tokens, "sdpa" and "flash" do not.
        checkpointing: "full" keeps the input of each block alone and computes the rest again; "selective" keeps
            attention's output and every second matrix product's as well.
        liger: Liger's kernels: no logits of the whole batch, fused norms and feed-forward activation.
        compiled: by torch.compile, which fuses what lies between the matrix products.
        fp8: the blocks' matrix products run in fp8, casts included.
        expert_products: a mixture's experts are multiplied in "grouped" products or one by one in a "loop".
        adapters: what is trained while the weights are frozen; None if all weights are trained.
        stack: the training stack whose code runs it, one of `ledgers`.

    Raises:
        UserError: it cannot be launched so.
    """

    name: str
    model: ModelShape
    gpu: Gpu
    gpus: int = 1
    nodes: int = 1
    seq_len: int = 2048
    micro_batch: int = 1
    accumulation: int = 1
    dtype: str = "bf16-mixed"
    optimizer: str = "adamw"
    attention: Attention = "sdpa"
    checkpointing: Checkpointing = "none"
    liger: bool = False
    compiled: bool = False
    fp8: bool = False
    expert_products: ExpertProducts = "grouped"
    adapters: Adapters | None = None
    sharding: Sharding = Sharding()
    stack: str = "transformers"

    def __post_init__(self) -> None:
        precision_of(self.dtype)
        optimizer_of(self.optimizer)
        ledger_of(self.stack)
        _check_counts(self)
        _check_choices(self)
        _check_gpus(self)
        check_sharding(self.model, self.sharding)
        check_context(self)
        check_adapters(self.model, self.adapters)

    @property
    def precision(self) -> PrecisionBytes:
        """Bytes of its values."""
        return precision_of(self.dtype)

    @property
    def optimizer_states(self) -> Optimizer:
        """The states that its optimizer keeps."""
        return optimizer_of(self.optimizer)

    @property
    def ledger(self) -> Ledger:
        """The memory ledger of its training stack."""
        return ledger_of(self.stack)

    @property
    def gathers_once(self) -> bool:
        """Whether the weights are sharded, gathered for the forward pass and kept for the backward pass.

        That is FSDP's SHARD_GRAD_OP, which stage 2 is if there are no separate master weights.
        """
        sharding = self.sharding
        return sharding.zero == 2 and sharding.shards > 1 and not self.precision.master_bytes

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a machine."""
        return self.gpus // self.nodes

    @property
    def micro_batch_tokens(self) -> int:
        """Tokens that a data-parallel rank computes at once; of a sequence that ranks share, its own ones."""
        return self.micro_batch * self.seq_len // self.sharding.cp

    @property
    def global_batch(self) -> int:
        """Sequences of an optimizer step."""
        return self.sharding.dp * self.micro_batch * self.accumulation

    @property
    def tokens_per_step(self) -> int:
        """Tokens of an optimizer step."""
        return self.global_batch * self.seq_len

    @property
    def layers_per_stage(self) -> tuple[int, ...]:
        """Blocks of each pipeline stage, the first stage first; the largest one sets the pace and keeps most."""
        if self.sharding.uneven_stages:
            return stages_by_work(self.model, self.sharding.pp)
        return (self.model.layers // self.sharding.pp,) * self.sharding.pp


def stages_by_work(model: ModelShape, pp: int) -> tuple[int, ...]:
    """Blocks of each stage, if a stage ends with the first block that exceeds its share of the multiplied weights.

    The weights include those of the head (nanotron, `NanotronModel` set-up of pipeline blocks).
    """
    block = model.attention_weights + model.feed_forward_weights(model.experts_per_token)
    whole = model.layers * block + model.vocab * model.hidden
    ends = [min(int(whole * stage // (block * pp)) + 1, model.layers) for stage in range(1, pp)]
    return tuple(end - begin for begin, end in pairwise([0, *ends, model.layers]))


def check_sharding(model: ModelShape, sharding: Sharding) -> None:
    """Check that the model can be sharded in this way.

    Raises:
        UserError: it cannot; the message lists what is allowed.
    """
    if sharding.zero not in ZERO_STAGES:
        stages = ", ".join(f"{stage} ({name})" for stage, name in ZERO_STAGES.items())
        raise WrongUsage("no such ZeRO stage", where=f"zero={sharding.zero}", do=f"use one of {stages}")
    if sharding.dp % sharding.replicas:
        allowed = _allowed("replicas", divisors(sharding.dp))
        raise WrongUsage("replicas must divide dp", where=f"replicas={sharding.replicas}, dp={sharding.dp}", do=allowed)
    if bad := [f"{model.heads} heads"] * bool(model.heads % sharding.tp) + _cut_kv_heads(model, sharding.tp):
        degrees = [tp for tp in divisors(model.heads) if not _cut_kv_heads(model, tp)]
        why = f"tensor parallelism gives each rank whole heads, and {' and '.join(bad)} cannot be divided by it"
        raise WrongUsage("tp does not fit the model", where=f"tp={sharding.tp}", why=why, do=_allowed("tp", degrees))
    _check_experts(model, sharding)
    if sharding.pp > model.layers or (model.layers % sharding.pp and not sharding.uneven_stages):
        takes = "at least one of them" if sharding.uneven_stages else "as many of them as the others"
        why = f"the model has {model.layers} layers, and each pipeline stage takes {takes}"
        even = _allowed("pp", divisors(model.layers))
        do = f"pp may be 1 to {model.layers}" if sharding.uneven_stages else even
        raise WrongUsage("pp does not fit the model", where=f"pp={sharding.pp}", why=why, do=do)


def _check_experts(model: ModelShape, sharding: Sharding) -> None:
    if sharding.ep == 1:
        return
    if not model.experts:
        why = "expert parallelism divides experts, and the model has none"
        raise WrongUsage("ep does not fit the model", where=f"ep={sharding.ep}", why=why, do="leave ep out")
    ranks = sharding.data_ranks * sharding.tp
    if model.experts % sharding.ep or ranks % sharding.ep:
        degrees = [ep for ep in divisors(model.experts) if ranks % ep == 0]
        why = f"each rank takes whole experts of {model.experts}, and {ranks} ranks (dp x cp x tp) share a stage"
        raise WrongUsage("ep does not fit the job", where=f"ep={sharding.ep}", why=why, do=_allowed("ep", degrees))


def check_context(plan: JobPlan) -> None:
    """Check that ranks can share the plan's sequences.

    Raises:
        UserError: they cannot; the message says what is needed.
    """
    cp = plan.sharding.cp
    if cp == 1:
        return
    if plan.attention == "eager":
        why = "context parallelism combines parts of fused attention, and eager attention has none"
        raise WrongUsage("cp needs fused attention", where="eager attention", why=why, do="use sdpa or flash")
    if plan.seq_len % (2 * cp):
        why = f"a rank takes an early and a late part of each sequence, {2 * cp} parts of the same length in all"
        raise WrongUsage("cp does not divide the sequences", where=f"cp={cp}, {plan.seq_len} tokens", why=why)


def _cut_kv_heads(model: ModelShape, tp: int) -> list[str]:
    """Key and value heads that are neither divided evenly nor repeated evenly."""
    fits = model.kv_heads % tp == 0 or tp % model.kv_heads == 0
    return [] if fits else [f"{model.kv_heads} key and value heads"]


def _check_counts(plan: JobPlan) -> None:
    sharding = plan.sharding
    counts = {name: getattr(plan, name) for name in ("gpus", "nodes", "seq_len", "micro_batch", "accumulation")}
    counts |= {name: getattr(sharding, name) for name in ("dp", "tp", "pp", "cp", "ep", "replicas")}
    for name, count in counts.items():
        if not 1 <= count <= MOST:
            raise WrongUsage(f"{name} must be from 1 to {MOST:,}", where=f"{name}={count}")


def _check_choices(plan: JobPlan) -> None:
    choices = {"attention": ATTENTIONS, "checkpointing": CHECKPOINTINGS, "expert_products": EXPERT_PRODUCTS}
    for name, allowed in choices.items():
        if (value := getattr(plan, name)) not in allowed:
            raise WrongUsage(f"no such {name}", where=value, do=_allowed(name, allowed))
    if plan.sharding.schedule not in SCHEDULES:
        raise WrongUsage("no such schedule", where=plan.sharding.schedule, do=_allowed("schedule", SCHEDULES))


def _check_gpus(plan: JobPlan) -> None:
    sharding = plan.sharding
    if plan.gpus % plan.nodes:
        allowed = _allowed("nodes", divisors(plan.gpus))
        raise WrongUsage("nodes must divide the GPUs", where=f"{plan.gpus} GPUs, {plan.nodes} nodes", do=allowed)
    if sharding.gpus != plan.gpus:
        shared = f" x cp {sharding.cp}" if sharding.cp > 1 else ""
        product = f"dp {sharding.dp} x tp {sharding.tp} x pp {sharding.pp}{shared} = {sharding.gpus}"
        rest, names = sharding.tp * sharding.pp * sharding.cp, "tp x pp x cp" if shared else "tp x pp"
        do = f"use dp={plan.gpus // rest}" if plan.gpus % rest == 0 else f"{names} must divide {plan.gpus}"
        raise WrongUsage("the sharding takes other GPUs than there are", where=f"{product}, {plan.gpus} GPUs", do=do)


def divisors(number: int) -> list[int]:
    """Every divisor of the number, the smallest first."""
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def _allowed(name: str, values: tuple[str, ...] | list[int]) -> str:
    return f"{name} may be {', '.join(map(str, values))}"
