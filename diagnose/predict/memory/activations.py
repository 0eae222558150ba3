"""Activations that the forward pass keeps for the backward pass: bytes per token of a block, by part, and of the loss.

Counted as Korthikanti et al. 2022 (Reducing Activation Recomputation in Large Transformer Models, section 4) count:
each operator keeps what its own gradient needs; a tensor that two operators keep is counted once. Which operators there
are is the training stack's (`Ledger`): for the models of transformers it is read off autograd's saved tensors.
"""

from dataclasses import dataclass

from diagnose.formulas.model import ModelShape
from diagnose.predict.memory.adapters import kept_input_bytes
from diagnose.predict.memory.job import JobPlan

FP32_BYTES = 4
_MASK_BYTES = 1  # of a value that dropout kept or dropped


@dataclass(frozen=True)
class BlockActivations:
    """Bytes that one block keeps for each token of a rank's micro-batch.

    Attributes:
        boundary: the block's input alone, which full checkpointing keeps.
        selected: what selective checkpointing keeps.
        norms: inputs, normalised values and outputs of the norms.
        attention: queries, keys, values and the output.
        scores: attention scores of every pair of tokens, as eager attention writes them.
        feed_forward: what lies between the feed-forward matrices, and tokens as they were routed to experts.
        adapters: inputs of adapters on frozen matrices.
        gathered: the rest of what tensor parallelism gathers, if it is kept.
    """

    boundary: float
    selected: float
    norms: float
    attention: float
    scores: float
    feed_forward: float
    adapters: float
    gathered: float


def block_activations(plan: JobPlan) -> BlockActivations:
    """Bytes per token on one rank, after division by tensor parallelism.

    With sequence parallelism, tensors between the matrices are divided by tp, too (Korthikanti et al., section 4.2.2).
    """
    tp = plan.sharding.tp
    between = tp if plan.sharding.sequence_parallel else 1
    boundary = _stream_bytes(plan) * plan.model.hidden / between
    return BlockActivations(
        boundary=boundary,
        selected=boundary + _selected(plan) / tp,
        norms=_norms(plan) / between,
        attention=_attention(plan) / tp,
        scores=_scores(plan) / tp,
        feed_forward=(_feed_forward(plan) + _routed(plan)) / tp,
        adapters=_adapters(plan) / tp,
        gathered=_gathered(plan) * (1 - 1 / between),
    )


def runs_in_autocast(plan: JobPlan) -> bool:
    """Whether operators cast their inputs one by one; FSDP casts the weights of a block as it gathers them instead."""
    return plan.precision.is_autocast and plan.sharding.zero < 2


def _stream_bytes(plan: JobPlan) -> int:
    """Bytes of a value of the residual stream: autocast adds 16-bit results to a stream in the type of the weights."""
    return plan.precision.weight_bytes if runs_in_autocast(plan) else plan.precision.compute_bytes


def _input_bytes(plan: JobPlan) -> int:
    """Bytes of a value that a product keeps as its input and that no other operator reads."""
    return 1 if plan.fp8 and plan.ledger.narrow_fp8 else plan.precision.compute_bytes


def _gathered(plan: JobPlan) -> float:
    """Inputs of the products after both norms, as the ranks of a tensor-parallel group share them."""
    kept = plan.ledger.keeps_gathered_inputs and plan.sharding.pp == 1
    return 2 * _input_bytes(plan) * plan.model.hidden if kept else 0


def _adapters(plan: JobPlan) -> float:
    """Inputs of adapters: each casts its own, or those of the same matrices' input share it as it is."""
    compute, model = plan.precision.compute_bytes, plan.model
    cast = kept_input_bytes(model, plan.adapters)
    return cast if plan.ledger.casts_adapter_inputs else min(cast, compute * (2 * model.hidden + _width(model)))


def _norms(plan: JobPlan) -> float:
    model, compute, stream = plan.model, plan.precision.compute_bytes, _stream_bytes(plan)
    if plan.adapters:  # a frozen weight needs neither the normalised value nor, in the matrices behind it, the output
        fused = plan.liger or plan.ledger.fused_norms
        return (stream if fused else FP32_BYTES) * model.hidden * model.norms_per_layer
    if plan.ledger.fused_norms:
        heads = 2 * compute * (model.query_width + _key_width(model)) if _norms_heads(model) else 0
        return (compute + _input_bytes(plan)) * model.hidden * model.norms_per_layer + heads
    readers = 3 + (2 if model.gated else 1)  # query, key, value; gate and up: each casts an fp32 input for itself
    if model.bias:
        # autocast runs layer_norm in fp32: it keeps an fp32 input
        values = 2 * FP32_BYTES + (readers if compute < FP32_BYTES else 2) * compute
        return (values + 2 * _MASK_BYTES) * model.hidden
    outputs = (readers if stream > compute and not plan.liger else 2) * compute
    inputs = 2 * stream if plan.liger else 2 * (FP32_BYTES + stream)  # unfused: an fp32 copy, and the normalised value
    heads = (FP32_BYTES + compute) * (model.query_width + _key_width(model)) if _norms_heads(model) else 0
    return (inputs + outputs) * model.hidden * model.norms_per_layer / 2 + heads


def _norms_heads(model: ModelShape) -> bool:
    """Whether queries and keys are normalised."""
    return model.qk_norm or model.qk_norm_whole


def _attention(plan: JobPlan) -> float:
    """Queries, keys, values and output; only flash attention takes keys and values that groups of queries share.

    OPT of transformers 4 hands SDPA queries whose heads lie one after the other. Its output lies alike, so that the
    projection that follows reads, and keeps, a copy by tokens; the same is counted for the other models with biased
    layer norms. In narrow fp8 the projection keeps a copy of its own.
    """
    model, ledger, compute = plan.model, plan.ledger, plan.precision.compute_bytes
    if model.latent_rank:
        return compute * 2 * model.heads * (model.head_dim + model.value_dim)
    repeated = ledger.repeats_keys and plan.attention != "flash"
    inputs = model.query_width + 2 * (model.query_width if repeated else _key_width(model))
    before = model.query_width + 2 * _key_width(model) if ledger.keeps_before_rotary else 0
    outputs = 2 if ledger.copies_output or (plan.attention == "sdpa" and model.bias and repeated) else 1
    copy = model.query_width if _input_bytes(plan) < compute else 0
    return compute * (inputs + before + outputs * model.query_width) + copy


def _scores(plan: JobPlan) -> float:
    """Eager attention keeps the softmax in fp32 and what the second product reads; the same tensor in fp32.

    Models with biased layer norms (GPT-2, OPT, BERT) keep one more: dropout's output, or OPT's scores before a clamp.
    """
    if plan.attention != "eager":
        return 0
    compute = plan.precision.compute_bytes
    bytes_per_score = FP32_BYTES + (compute if compute < FP32_BYTES else 0) + (compute if plan.model.bias else 0)
    return plan.model.heads * plan.seq_len * bytes_per_score


def _feed_forward(plan: JobPlan) -> float:
    """Inner values of that width: gate, its activation, up and their product; fused, the activation is computed again.

    Without a gate: the activation function's input and output (ReLU would keep its output alone). A frozen matrix does
    not keep its input.
    """
    tensors = (3 if plan.liger else plan.ledger.gated_tensors) if plan.model.gated else 2
    kept_input = 0 if plan.adapters else _input_bytes(plan)
    return ((tensors - 1) * plan.precision.compute_bytes + kept_input) * _width(plan.model)


def _routed(plan: JobPlan) -> float:
    """The input of each expert that a token passes, and what it returns if the router's weights scale that."""
    model = plan.model
    returned = 0 if plan.adapters or plan.ledger.scales_inside_experts else plan.precision.compute_bytes
    each = (_input_bytes(plan) + returned) * model.hidden * model.experts_per_token
    return each * model.mixture_layers / model.layers


def _selected(plan: JobPlan) -> float:
    """Outputs of attention and of every second product of a block: query, value, the first of the feed-forward part.

    torchtitan saves so by operator with torch's selective checkpointing; with a gate the last product is one of them.
    """
    model = plan.model
    products = model.query_width + _key_width(model) + _width(model) + (model.hidden if model.gated else 0)
    return plan.precision.compute_bytes * (model.query_width + products)


def _width(model: ModelShape) -> float:
    """Inner width of the feed-forward part that a token passes, in the mean over blocks."""
    mixture = model.experts_per_token * model.expert_ffn + model.shared_experts * model.shared_ffn
    return (model.mixture_layers * mixture + (model.layers - model.mixture_layers) * model.ffn) / model.layers


def _key_width(model: ModelShape) -> int:
    return model.kv_heads * model.head_dim


def loss_bytes_per_token(plan: JobPlan) -> float:
    """Bytes of the logits and of all that the loss makes of them, at the moment when most of it exists.

    transformers (up to 4.49): the logits as they are computed, in fp32, shifted by one position, and their log-softmax.
    Later versions do without the shifted copy, and their backward pass holds as much. A loss whose vocabulary is
    divided by tensor parallelism works on the rank's part (Megatron, nanotron). Liger makes the logits in pieces of
    about as many bytes as its input, and keeps the input's gradient.
    """
    if not plan.model.lm_head:
        return 0
    compute, ledger = plan.precision.compute_bytes, plan.ledger
    if plan.liger:
        return 2 * compute * plan.model.hidden
    whole = FP32_BYTES * max(ledger.half_logits, ledger.fp32_logits)
    mixed = compute * ledger.half_logits + FP32_BYTES * ledger.fp32_logits
    return (mixed if compute < FP32_BYTES else whole) * plan.model.vocab / plan.sharding.tp
