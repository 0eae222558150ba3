"""Predicted gains of single changes: a lower bound from the bytes and FLOPs that they save. Bandwidth in bytes/s."""

from diagnose.formulas.batch_model import BatchModel
from diagnose.formulas.throughput import tokens_per_s
from worked_examples import traffic
from worked_examples.formulas import step_of

BF16_BYTES, FP32_BYTES = 2, 4


def bytes_s(moved_bytes: float, bytes_per_s: float) -> float:
    """Seconds that moving the bytes takes at least."""
    return moved_bytes / bytes_per_s


def optimizer_s(parameters: int, bytes_per_s: float, itemsize: int = BF16_BYTES) -> float:
    """Seconds of gradient clipping and a multi-tensor AdamW step."""
    return bytes_s(traffic.adamw_and_clip_bytes(parameters, itemsize), bytes_per_s)


def loss_accumulation_s(
    batch: int, tokens: int, vocab: int, hidden: int, bytes_per_s: float, itemsize: int = BF16_BYTES
) -> float:
    """Seconds in which Liger's chunked loss accumulates the gradient of the head."""
    return bytes_s(traffic.loss_chunk_bytes(batch, tokens, vocab, hidden, itemsize), bytes_per_s)


def rate_at_batch(
    fixed_s: float, step_s: float, batch: int, other_fixed_s: float, other_batch: int, tokens: int
) -> float:
    """Tokens per second at another batch size when the time per sample stays.

    Args:
        fixed_s: seconds of the measured step that the batch does not change.
        step_s: seconds of the measured step.
        batch: samples of the measured step.
        other_fixed_s: seconds of the predicted step that do not scale with its samples.
        other_batch: samples of the predicted step.
        tokens: tokens of a sample.
    """
    per_sample = BatchModel.from_fixed(fixed_s, batch, step_s).per_sample_s
    return tokens_per_s(1, other_batch, tokens, step_of(BatchModel(other_fixed_s, per_sample), other_batch))


def amp_sample_s(
    sample_s: float, flops: float, before_flops: float, after_flops: float, cast_s: float, batch: int
) -> float:
    """Seconds per sample under autocast: the products run at another rate, and each step casts the weights.

    Args:
        sample_s: seconds per sample before.
        flops: FLOPs of the matrix products of a sample.
        before_flops: FLOP/s that those reach before.
        after_flops: FLOP/s that they reach under autocast.
        cast_s: seconds of the casts in a step.
        batch: samples of a step under autocast.
    """
    return sample_s - flops / before_flops + flops / after_flops + cast_s / batch


def bf16_weights_saving_s(parameters: int, bytes_per_s: float) -> float:
    """Seconds that bf16 weights save against autocast: optimizer and clipping on half the bytes, and no casts."""
    states = traffic.adamw_and_clip_bytes(parameters, FP32_BYTES) - traffic.adamw_and_clip_bytes(parameters, BF16_BYTES)
    return bytes_s(states + traffic.amp_cast_bytes(parameters), bytes_per_s)


def fused_adamw_saving_s(parameters: int, bytes_per_s: float, itemsize: int = BF16_BYTES) -> float:
    """Seconds that one fused AdamW kernel saves against the multi-tensor kernels."""
    accesses = traffic.ADAMW_FOREACH_ACCESSES - traffic.ADAMW_FUSED_ACCESSES
    return bytes_s(traffic.optimizer_bytes(parameters, accesses, itemsize), bytes_per_s)


def bucket_view_saving_s(gradient_bytes: int, bytes_per_s: float) -> float:
    """Seconds that gradient_as_bucket_view=True saves."""
    return bytes_s(traffic.bucket_copy_bytes(gradient_bytes), bytes_per_s)
