"""Formulas of the field that the worked examples hold against their printed values, and the product has no use for."""

import math

from diagnose import intervals as iv
from diagnose.formulas.batch_model import BatchModel
from diagnose.formulas.collectives import transfer_s
from diagnose.formulas.data_pipeline import shared_s
from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_flops import (
    BACKWARD,
    BACKWARD_PRODUCTS,
    FORWARD,
    FORWARD_PRODUCTS,
    attention_flops,
    dense_flops_per_token,
    linear_flops_per_token,
)

INT64_BYTES = 8
SECONDS_PER_DAY = 86400
SECONDS_PER_YEAR = 3.156e7  # 365.25 days to four digits
MIXED_ADAMW_BYTES = 2 + 2 + 4 + 4 + 4  # 16-bit weight and gradient; fp32 master weight and both moments
FP32_ADAMW_BYTES = 4 + 4 + 4 + 4  # weight, gradient and both moments
BF16_ADAMW_BYTES = 2 + 2 + 2 + 2
EAGER_SCORE_BYTES = 2 + 4  # 16-bit probabilities and the fp32 softmax


def node_boundary_s(message_bytes: float, nodes: int, node_bytes_per_s: float) -> float:
    """Seconds of an allreduce between nodes, each with its own network bandwidth, when it is perfectly hierarchical."""
    return transfer_s("allreduce", message_bytes, nodes, node_bytes_per_s)


def is_network_wall(transfer_s: float, compute_s: float) -> bool:
    """Whether communication lasts longer than the computation that could hide it."""
    return transfer_s > compute_s


def efficiency_without_overlap(compute_s: float, transfer_s: float) -> float:
    """Share of the step that computes when nothing hides the communication."""
    return compute_s / (compute_s + transfer_s)


def gradient_bytes(parameters: int, itemsize: int) -> int:
    """Bytes that data-parallel ranks reduce in a step."""
    return parameters * itemsize


def ddp_buckets(gradient_bytes: int, first_bytes: int = 1 << 20, cap_bytes: int = 25 << 20) -> int:
    """Fewest buckets of DistributedDataParallel: a small first one, then full ones. Parameters are not split."""
    return math.ceil(max(gradient_bytes - first_bytes, 0) / cap_bytes) + 1


def exposed_ns(communication: iv.Intervals, compute: iv.Intervals) -> int:
    """Nanoseconds of communication beside which nothing computes."""
    return iv.total(iv.subtract(communication, compute))


def system_rate(pipeline_rate: float, compute_rate: float) -> float:
    """Rate of training: that of the slower of the input pipeline and the accelerator."""
    return min(pipeline_rate, compute_rate)


def fed_share(pipeline_rate: float, compute_rate: float) -> float:
    """Share of its rate that an accelerator reaches on what the pipeline delivers."""
    return system_rate(pipeline_rate, compute_rate) / compute_rate


def tokenise_s(batch: int, tokens: int, tokens_per_s: float) -> float:
    """Seconds to tokenise a batch of sequences in one worker."""
    return batch * tokens / tokens_per_s


def batch_bytes(batch: int, tokens: int, itemsize: int = INT64_BYTES) -> int:
    """Bytes of a batch of token ids."""
    return batch * tokens * itemsize


def copy_s(size_bytes: float, bytes_per_s: float) -> float:
    """Seconds of a copy at the bandwidth of its link."""
    return size_bytes / bytes_per_s


def step_with_workers_s(compute_s: float, batch_s: float, workers: int) -> float:
    """Seconds of a step that workers feed: computing and loading overlap, the longer one counts."""
    return max(compute_s, shared_s(batch_s, workers))


def workers_speedup(compute_s: float, wait_s: float, batch_s: float, workers: int) -> float:
    """Speed-up of a step that waits for data by so many workers."""
    return (compute_s + wait_s) / step_with_workers_s(compute_s, batch_s, workers)


def training_flops(parameters: float, tokens: float) -> float:
    """6·N·D FLOPs of training a dense model on so many tokens (Kaplan et al. 2020)."""
    return dense_flops_per_token(parameters) * tokens


def training_s(flops: float, devices: int, peak_flops: float, mfu: float) -> float:
    """Seconds of a run: FLOPs over what the devices do in a second; `mfu` is a share of the peak (FLOP/s)."""
    return flops / (devices * peak_flops * mfu)


def kwh_at_utilisation(kwh: float, factor: float) -> float:
    """Kilowatt-hours of the same work when utilisation grows by the factor and power stays."""
    return kwh / factor


def energy_cost(kwh: float, price_per_kwh: float) -> float:
    """Cost of energy, in the currency of the price."""
    return kwh * price_per_kwh


def energy_per_token_j(power_w: float, tokens_per_s: float, devices: int = 1) -> float:
    """Joules per token; with the power limit of a device this is an upper bound."""
    return power_w * devices / tokens_per_s


def cost_of_tokens(tokens: float, price_per_device_hour: float, devices: int, job_tokens_per_s: float) -> float:
    """Cost of training on so many tokens, in the currency of the price."""
    return price_per_device_hour * devices * tokens / (job_tokens_per_s * 3600)


def training_state_bytes(parameters: float, bytes_per_parameter: int) -> float:
    """Bytes of weights, gradients and optimizer state, activations left out (ZeRO, Rajbhandari et al. 2020)."""
    return parameters * bytes_per_parameter


def kept_scores_bytes(
    batch: int, heads: int, tokens: int, layers: int, bytes_per_score: int = EAGER_SCORE_BYTES
) -> int:
    """Bytes of attention scores that eager attention keeps for the backward pass."""
    return batch * heads * tokens * tokens * bytes_per_score * layers


def shifted_logits_bytes(batch: int, tokens: int, vocab: int, itemsize: int = 4) -> int:
    """Bytes of the logits that predict a next token: a copy without the last position of each sequence."""
    return batch * (tokens - 1) * vocab * itemsize


def recompute_factor(recomputed_share: float = 1.0) -> float:
    """Executed over model FLOPs of the linear layers: 8N/6N = 4/3 with full activation checkpointing.

    Args:
        recomputed_share: of the forward pass, what the backward pass computes again.
    """
    return (FORWARD * (1 + recomputed_share) + BACKWARD) / (FORWARD + BACKWARD)


def executed_flops_per_token(
    shape: ModelShape, tokens: float, recomputed_share: float = 0.0, *, fused_attention: bool = True
) -> float:
    """FLOPs that training one token executes, without a causal discount; the numerator of HFU.

    Args:
        shape: the model.
        tokens: length of a sequence.
        recomputed_share: of the forward pass, what activation checkpointing computes again.
        fused_attention: the backward pass of attention computes QKᵀ again: 14·L·H·d·T instead of 12.
    """
    attention = attention_flops(shape, tokens)
    again = attention / (FORWARD_PRODUCTS + BACKWARD_PRODUCTS) if fused_attention else 0
    return (linear_flops_per_token(shape) + attention) * recompute_factor(recomputed_share) + again


def hfu_share(mfu: float, recomputed_share: float = 1.0) -> float:
    """Hardware FLOPs utilisation of the linear layers from their MFU. Share of the peak."""
    return mfu * recompute_factor(recomputed_share)


def exceeds_peak(achieved_tflops: float, peak_tflops: float) -> bool:
    """Whether a rate is impossible in the precision of the peak, so that another precision ran."""
    return achieved_tflops > peak_tflops


def intensity(flops: float, moved_bytes: float) -> float:
    """FLOP/B."""
    return flops / moved_bytes


def total_rate(ranks: int, rate_per_rank: float) -> float:
    """Rate of the job from that of one rank."""
    return ranks * rate_per_rank


def scaling_speedup(ranks: int, rate_per_rank: float, rate_alone: float) -> float:
    """Rate of the job over that of a single rank by itself: N·r_N / r_1."""
    return total_rate(ranks, rate_per_rank) / rate_alone


def doubling_efficiency(ranks: int, rate_per_rank: float, rate_per_rank_doubled: float) -> float:
    """Rate of twice the ranks over twice the rate of the ranks: what the last doubling was worth."""
    return total_rate(2 * ranks, rate_per_rank_doubled) / (2 * total_rate(ranks, rate_per_rank))


def amdahl_speedup(share: float, factor: float) -> float:
    """Speed-up of the whole when a share of its time becomes faster by a factor (Amdahl 1967)."""
    return 1 / (1 - share + share / factor)


def amdahl_bound(share: float) -> float:
    """Speed-up of the whole when a share of its time vanishes."""
    return amdahl_speedup(share, float("inf"))


def accumulated_step_s(micro_batches: int, micro_batch_s: float, sync_s: float) -> float:
    """Seconds of a step of several micro-batches with a synchronisation between each two: k·t + (k-1)·s."""
    return micro_batches * micro_batch_s + (micro_batches - 1) * sync_s


def samples_per_s(batch: int, step_s: float) -> float:
    """Samples per second from the seconds of a step."""
    return batch / step_s


def epochs(steps: int, batch: int, samples: int) -> float:
    """Passes over a data set of so many samples."""
    return steps * batch / samples


def saved_share(before: float, after: float) -> float:
    """Part of a time or size that a change removed, of what it was before."""
    return 1 - after / before


def line_through(batch: int, step_s: float, other_batch: int, other_step_s: float) -> BatchModel:
    """The line through two measured steps."""
    per_sample = (other_step_s - step_s) / (other_batch - batch)
    return BatchModel(step_s - per_sample * batch, per_sample)


def step_of(model: BatchModel, batch: int) -> float:
    """Seconds of a step of that batch."""
    return model.fixed_s + model.per_sample_s * batch
