"""Seconds of a micro-batch on one pipeline stage, forward and backward, by part."""

import math
from dataclasses import dataclass

from diagnose.commands.fit.adapters import adapter_host_s, gathering_modules_s, with_adapters
from diagnose.commands.fit.context import context_s, slowdown
from diagnose.commands.fit.moe import expert_host_s, with_experts
from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.transfers import (
    COLLECTIVES_PER_BLOCK,
    exposed_s,
    gathering_s,
    gathers,
    hooks_s,
    latency_s,
    reduction_s,
    shard_collectives,
    tensor_parallel_s,
)
from diagnose.errors import WrongUsage
from diagnose.formulas.model_flops import (
    attention_flops,
    causal_pairs_per_token,
    dense_flops_per_token,
)
from diagnose.hardware.device import ASSUMED_HBM_SHARE
from diagnose.predict.memory.job import JobPlan

_SHARPNESS = 6  # of the longer of device and host: near the crossing they hinder each other
_FORWARD_SHARE = 1 / 3  # of training's matrix products; of attention and elementwise work about the same


@dataclass(frozen=True)
class Board:
    """Rates of a GPU: FLOP/s of its dense peak in the plan's precision, bytes/s of its memory."""

    peak_flops: float
    memory_bytes_per_s: float


def board_of(plan: JobPlan) -> Board:
    """The plan's GPU in the plan's precision.

    Raises:
        UserError: the board has no such units, or their rate is unknown.
    """
    gpu, precision = plan.gpu, plan.precision.peak
    tflops = gpu.tflops(precision)
    if tflops is None or gpu.hbm_gbs is None:
        lacks = f"{precision} peak" if tflops is None else "memory bandwidth"
        raise WrongUsage(f"no {lacks} is known of this GPU", where=gpu.key, do="choose another --dtype or --gpu")
    if plan.fp8 and gpu.fp8_tflops is None:
        raise WrongUsage("this GPU has no fp8 units", where=gpu.key, do="leave out --fp8, or choose another --gpu")
    gbs = gpu.measured_hbm_gbs or ASSUMED_HBM_SHARE * gpu.hbm_gbs
    return Board(tflops * 1e12, gbs * 1e9)


@dataclass(frozen=True)
class PipelineStage:
    """Contents of one pipeline stage.

    Attributes:
        layers: its blocks.
        has_embedding: it begins with the embedding.
        has_head: it ends with the logits and the loss.
    """

    layers: int
    has_embedding: bool
    has_head: bool


def stages(plan: JobPlan) -> tuple[PipelineStage, ...]:
    """The pipeline's stages, the first one first; the head is on the last one."""
    layers = plan.layers_per_stage
    return tuple(PipelineStage(own, at == 0, at == len(layers) - 1) for at, own in enumerate(layers))


def stage_parts(plan: JobPlan, stack: StackRates, board: Board, stage: PipelineStage) -> dict[str, float]:
    """Seconds by part; time that a part hides behind others is not included."""
    parts = _device_parts(plan, stack, board, stage)
    device = sum(parts.values())
    host = _host_s(plan, stack, stage.layers + stage.has_head)
    host += expert_host_s(plan, stack, stage.layers) + adapter_host_s(plan, stack, stage.layers)
    longer = (device**_SHARPNESS + host**_SHARPNESS) ** (1 / _SHARPNESS)
    parts["waiting for launches and latencies"] = longer - device
    parts["sharded weights"] = _sharded_weights_s(plan, stack, stage_parameters(plan, stage), device)
    parts["sharded weights"] += gathering_modules_s(plan, stack, stage.layers) + hooks_s(plan, stack, stage.layers)
    parts["hand-over between stages"] = stack.handover_s if plan.sharding.pp > 1 else 0.0
    return parts


def stage_parameters(plan: JobPlan, stage: PipelineStage) -> float:
    """Parameters of a rank of the stage before ZeRO divides them; norms outside the blocks are with them."""
    model = plan.model
    shares_table = model.tied and stage.has_embedding
    tables = model.embedding_parameters if stage.has_embedding else 0
    head = model.head_weights if stage.has_head and not shares_table else 0
    routed = model.mixture_layers * model.experts * model.expert_weights
    blocks = model.parameters - model.embedding_parameters - (0 if model.tied else model.head_weights) - routed
    share = stage.layers / model.layers
    return (tables + head + blocks * share) / plan.sharding.tp + routed * share / plan.sharding.expert_cut


def _device_parts(plan: JobPlan, stack: StackRates, board: Board, stage: PipelineStage) -> dict[str, float]:
    model, tp, tokens, layers = plan.model, plan.sharding.tp, plan.micro_batch_tokens, stage.layers
    width = model.hidden / tp
    matrix_flops = board.peak_flops * _matrix_share(plan, stack) * width / (width + stack.matrix_half_width)
    block = model.attention_weights + model.feed_forward_weights(model.experts_per_token)
    blocks = dense_flops_per_token(layers * block) * tokens / tp / matrix_flops
    blocks *= stack.fp8_share if plan.fp8 else 1
    attention = layers * _attention_s(plan, stack, board, matrix_flops) * slowdown(plan, stack)
    elementwise = stack.elementwise_bytes * layers * model.hidden * tokens / tp / board.memory_bytes_per_s
    head = dense_flops_per_token(model.head_weights) * tokens / tp / matrix_flops if stage.has_head else 0.0
    logits = stack.logits_bytes * model.vocab * tokens / tp / board.memory_bytes_per_s if stage.has_head else 0.0
    if plan.liger:
        elementwise, logits = elementwise * stack.liger_elementwise, logits * stack.liger_logits
    elif plan.compiled:
        elementwise *= stack.compiled_elementwise
    again = {"none": 0.0, "selective": attention, "full": blocks + attention + elementwise}[plan.checkpointing]
    parts = {
        "matrix products": blocks + head,
        "attention": attention,
        "elementwise": elementwise,
        "loss": logits,
        "recomputation": again * _FORWARD_SHARE,
        "tensor-parallel transfers": stack.tp_exposed_share * layers * tensor_parallel_s(plan, stack),
    }
    if plan.sharding.cp > 1:
        parts["exchange of keys and values"] = layers * context_s(plan, stack, attention / layers)
    rates = matrix_flops, board.memory_bytes_per_s
    parts = with_experts(parts, plan, stack, layers, rates)
    return with_adapters(parts, plan, layers, board.memory_bytes_per_s, stack.fuses_adapters)


def _attention_s(plan: JobPlan, stack: StackRates, board: Board, matrix_flops: float) -> float:
    """Seconds of a block's attention: fused over the pairs that the mask leaves, or eager over all pairs and scores."""
    model, tp, tokens = plan.model, plan.sharding.tp, plan.micro_batch_tokens
    if plan.attention != "eager":
        pairs = causal_pairs_per_token(model, plan.seq_len)
        flops = attention_flops(model, pairs) / model.layers * tokens / tp
        return flops / (board.peak_flops * attention_share(plan, stack))
    flops = attention_flops(model, plan.seq_len) / model.layers * tokens / tp
    scores = stack.score_bytes * model.heads * plan.seq_len * tokens / tp
    return flops / matrix_flops + scores / board.memory_bytes_per_s


_BEFORE_HOPPER = ("Volta", "Turing", "Ampere", "Ada")
_USUAL_HEAD = 128


def _matrix_share(plan: JobPlan, stack: StackRates) -> float:
    return min(stack.matrix_share * _of_board(plan, stack.ampere_matrix, stack.blackwell_matrix), 1.0)


def attention_share(plan: JobPlan, stack: StackRates) -> float:
    """Share of the board's peak that fused attention reaches with the model's heads."""
    narrower = max(math.log2(_USUAL_HEAD / plan.model.head_dim), 0.0)
    of_board = _of_board(plan, stack.ampere_attention, stack.blackwell_attention)
    return min(stack.attention_share * of_board * stack.narrow_head_attention**narrower, 1.0)


def _of_board(plan: JobPlan, before_hopper: float, after_hopper: float) -> float:
    """A share on the plan's board over that on Hopper."""
    arch = plan.gpu.arch
    return before_hopper if arch in _BEFORE_HOPPER else after_hopper if arch == "Blackwell" else 1.0


_LIGER_LAUNCHES = 0.56
"""What Liger leaves of the 105 operators of a block of Llama, forward and backward. An estimate: it fuses norms (32
to 6), the rotation (20 to 4) and the gated activation (7 to 3)."""


def _host_s(plan: JobPlan, stack: StackRates, blocks: int) -> float:
    """Seconds of the host to launch so many blocks, with the latencies that no message size hides."""
    launches = stack.host_layer_s if plan.sharding.tp == 1 else stack.host_layer_tp_s
    launches *= _LIGER_LAUNCHES if plan.liger else 1.0
    shared = stack.host_shard_s * shard_collectives(plan)
    return blocks * (launches + shared + COLLECTIVES_PER_BLOCK * latency_s(plan, stack))


def _sharded_weights_s(plan: JobPlan, stack: StackRates, parameters: float, device_s: float) -> float:
    """Seconds that a micro-batch waits for weights and, from ZeRO-2 on, for its gradients."""
    if plan.sharding.zero < 2:
        return 0.0
    seconds = gathers(plan) * gathering_s(plan, stack, parameters) + reduction_s(plan, stack, parameters)
    return exposed_s(seconds, stack.gather_exposed_share, device_s)
