"""The memory estimate of a job before it runs: what each rank holds, by part, and whether the GPU has as much."""

from collections.abc import Callable
from dataclasses import dataclass

from diagnose.diagnosis.capacity import CONTEXT
from diagnose.predict.memory.activations import FP32_BYTES, block_activations, loss_bytes_per_token, runs_in_autocast
from diagnose.predict.memory.fits import Fits, MemorySpan, span_of
from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.parameter_groups import ParameterGroup, parameter_groups

GIB = 1 << 30
CONTEXT_BYTES = GIB // 2  # CUDA context, loaded kernels and cuBLAS workspaces of a process on an H100
_FULL_WIDTH_COPIES = 4  # gathered input, output before it is scattered, and the gradients of both
_GATHERED_BLOCKS = 2  # the one that computes and the next


@dataclass(frozen=True)
class EstimatedPart:
    """One part of a rank's memory.

    Attributes:
        name: what it is, in the words of a report.
        bytes: how much.
        transient: whether each step takes it and gives it back.
    """

    name: str
    bytes: int
    transient: bool = False


@dataclass(frozen=True)
class MemoryEstimate:
    """The peak memory of the ranks of one pipeline stage. The parts add up to `total_bytes`.

    Attributes:
        stage: the pipeline stage, from 0.
        parts: the parts in the order of a report, without those that the job does not have.
        capacity_bytes: memory of the GPU.
        span: how far such jobs were from their estimate.
    """

    stage: int
    parts: tuple[EstimatedPart, ...]
    capacity_bytes: int
    span: MemorySpan

    @property
    def total_bytes(self) -> int:
        """All parts."""
        return sum(part.bytes for part in self.parts)

    @property
    def reserved_bytes(self) -> int:
        """Bytes that torch's allocator reserves: all but the CUDA context."""
        return self.total_bytes - self.bytes_of(CONTEXT)

    @property
    def allocated_bytes(self) -> int:
        """Bytes of tensors: all but the CUDA context and fragmentation. nanotron logs those of the first stage."""
        return self.reserved_bytes - self.bytes_of("fragmentation")

    @property
    def headroom_bytes(self) -> int:
        """Memory of the GPU that is left; negative if the job does not fit."""
        return self.capacity_bytes - self.total_bytes

    @property
    def fits(self) -> Fits:
        """Whether the GPU has as much."""
        total, span = self.total_bytes, self.span
        return Fits(total, round(total * span.low), round(total * span.high), self.capacity_bytes, span.because)

    def bytes_of(self, name: str) -> int:
        """Bytes of the part of that name, 0 when the job has none."""
        return sum(part.bytes for part in self.parts if part.name == name)


def memory_estimate(plan: JobPlan) -> MemoryEstimate:
    """The estimate of the fullest pipeline stage."""
    return max(stage_estimates(plan), key=lambda estimate: estimate.total_bytes)


def stage_estimates(plan: JobPlan) -> tuple[MemoryEstimate, ...]:
    """The estimate of each pipeline stage. The first has most micro-batches in flight, the last the logits."""
    stages = range(plan.sharding.pp)
    kept = tuple(_stage_estimate(plan, stage, keeps_gathered=True) for stage in stages)
    if not plan.ledger.keeps_gathered_inputs or all(estimate.headroom_bytes >= 0 for estimate in kept):
        return kept
    return tuple(_stage_estimate(plan, stage, keeps_gathered=False) for stage in stages)


def _stage_estimate(plan: JobPlan, stage: int, keeps_gathered: bool) -> MemoryEstimate:
    held = _training_state(plan, stage)
    taken = _activations(plan, stage, keeps_gathered) | {
        "logits and loss": _loss(plan, stage),
        "communication buffers": _communication_buffers(plan, stage),
    }
    fragmentation = plan.ledger.fragmentation * sum(taken.values())
    parts = [
        *(EstimatedPart(name, round(size)) for name, size in held.items()),
        *(EstimatedPart(name, round(size), transient=True) for name, size in taken.items()),
        EstimatedPart("fragmentation", round(fragmentation), transient=True),
        EstimatedPart(CONTEXT, CONTEXT_BYTES),
    ]
    return MemoryEstimate(stage, tuple(part for part in parts if part.bytes), plan.gpu.memory_bytes, span_of(plan))


def stage_parameters(plan: JobPlan, stage: int) -> float:
    """Parameters that a rank of the stage holds before ZeRO divides them.

    Tensor parallelism divides matrices and tables. The embedding is the first stage's and the head the last stage's:
    over several stages a tied head is a second table.
    """
    model, pp = plan.model, plan.sharding.pp
    blocks = plan.layers_per_stage[stage] / model.layers
    tables = model.embedding_parameters if stage == 0 else 0
    head = model.head_weights if stage == pp - 1 else 0
    if pp == 1 and model.tied and model.lm_head:
        head -= model.vocab * model.hidden
    routed = model.mixture_layers * model.experts * model.expert_weights * blocks
    matrices = model.layers * (model.attention_weights + model.feed_forward_weights(model.experts)) * blocks - routed
    dense = (matrices + tables + head) / plan.sharding.tp + model.vector_parameters * blocks
    return dense + routed / plan.sharding.expert_cut


def _training_state(plan: JobPlan, stage: int) -> dict[str, float]:
    """Weights, gradients, master weights and optimizer states by ZeRO stage (Rajbhandari et al. 2020, section 5).

    Gradients that are summed up in a wider type exist in the type of the backward pass as well, if no product adds to
    them itself. Autocast keeps a 16-bit copy of each weight from its first use to the end of the backward pass. FSDP's
    SHARD_GRAD_OP keeps a copy of what it gathers in the same way, and shards the weights themselves.
    """
    sharding, compute = plan.sharding, plan.precision.compute_bytes
    groups = parameter_groups(plan, stage, stage_parameters(plan, stage), optimizer_bytes(plan))
    held = sum(group.parameters for group in groups)

    def divided(each: Callable[[ParameterGroup], float], first: int) -> float:
        """Bytes of all groups, divided from that ZeRO stage on."""
        return sum(group.parameters * each(group) / (group.shards if sharding.zero >= first else 1) for group in groups)

    whole = held if _stays_gathered(plan) else 0.0
    return {
        "weights": divided(lambda group: group.weight_bytes, 2 if plan.gathers_once else 3),
        "weights cast by autocast": held * compute if runs_in_autocast(plan) else 0,
        "gathered weights": held * compute if plan.gathers_once else whole * compute,
        "gradients": divided(lambda group: group.gradient_bytes, 2) + whole * FP32_BYTES,
        "master weights": divided(lambda group: group.master_bytes, 1),
        "optimizer states": divided(lambda group: group.state_bytes, 1),
    }


def _stays_gathered(plan: JobPlan) -> bool:
    """Whether a pipeline's stage keeps its weights and gradients whole from the first micro-batch to the last."""
    sharding = plan.sharding
    divided = sharding.zero >= 2 and sharding.shards > 1 and not plan.adapters
    return plan.ledger.pipeline_keeps_gathered and sharding.pp > 1 and divided


def optimizer_bytes(plan: JobPlan) -> float:
    """Bytes that the optimizer keeps of each parameter before ZeRO divides them, master weights left out."""
    factored_share = plan.model.factored_values / plan.model.parameters
    return plan.optimizer_states.state_bytes(plan.precision, factored_share)


def micro_batches_in_flight(plan: JobPlan, stage: int) -> int:
    """Micro-batches whose activations a stage holds at once (Narayanan et al. 2021, section 2.2)."""
    deepest = plan.sharding.pp - stage if plan.sharding.schedule == "1f1b" else plan.accumulation
    return min(deepest, plan.accumulation) if plan.sharding.pp > 1 else 1


def _activations(plan: JobPlan, stage: int, keeps_gathered: bool) -> dict[str, float]:
    """Activations of all blocks and micro-batches in flight; with checkpointing, checkpoints and one block in full."""
    block = block_activations(plan)
    layers = plan.layers_per_stage[stage] * (1 - _offloaded(plan))
    kept = layers * micro_batches_in_flight(plan, stage) * plan.micro_batch_tokens
    checkpoint = {"none": 0.0, "selective": block.selected, "full": block.boundary}[plan.checkpointing]
    blocks = min(kept, plan.micro_batch_tokens) if checkpoint else kept
    return {
        "checkpoints": kept * checkpoint,
        "attention scores": blocks * block.scores,
        "attention activations": blocks * block.attention,
        "feed-forward activations": blocks * block.feed_forward,
        "norm activations": blocks * block.norms,
        "adapters' inputs": blocks * block.adapters,
        "gathered inputs": blocks * block.gathered if keeps_gathered else 0,
    }


def _offloaded(plan: JobPlan) -> float:
    """Share of the activations that the stack moves to the host."""
    ledger = plan.ledger
    moves = plan.sharding.zero == 3 and plan.sharding.shards > 1 and plan.gpu.key.startswith(ledger.offloading_boards)
    return ledger.offloaded_share if moves else 0.0


def _loss(plan: JobPlan, stage: int) -> float:
    """Bytes of the loss in the last stage, else 0. Liger computes and keeps the head's gradient in the forward pass."""
    if stage < plan.sharding.pp - 1:
        return 0
    keeps = plan.liger and not plan.adapters
    head = plan.model.head_weights / plan.sharding.tp * plan.precision.weight_bytes if keeps else 0
    return head + plan.micro_batch_tokens * loss_bytes_per_token(plan)


def _communication_buffers(plan: JobPlan, stage: int) -> float:
    """Bytes that collectives need in addition to the tensors they work on.

    Tensor parallelism: copies of the micro-batch at full width. ZeRO-3: the weights of two blocks and of everything
    outside the blocks, gathered in the type of the products, and a block's gradients before they are scattered.
    """
    sharding, precision, model = plan.sharding, plan.precision, plan.model
    width = plan.micro_batch_tokens * model.hidden * precision.compute_bytes
    gathered = 0.0
    if sharding.zero == 3 and sharding.shards > 1 and not _stays_gathered(plan):
        layers = max(1, plan.layers_per_stage[stage])
        whole = stage_parameters(plan, stage)
        routed = model.mixture_layers / model.layers * model.experts * model.expert_weights
        block = (model.attention_weights + model.feed_forward_weights(0)) / sharding.tp + routed / sharding.expert_cut
        outside = max(0.0, whole - layers * block)
        gathered = (outside + (min(_GATHERED_BLOCKS, layers) + 1) * block) * precision.compute_bytes
    return (_FULL_WIDTH_COPIES * width if sharding.tp > 1 else 0) + gathered
