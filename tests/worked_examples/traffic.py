"""HBM traffic of parts of a training step: bytes read and written by the kernels that implement them.

Counted from the code of transformers, torch and Liger: reads and writes of each kernel, caches left out.
"""

import math

EAGER_BYTES_PER_SCORE = 24 + 28  # forward and backward of eager attention in bf16 with an fp32 softmax
LOSS_BYTES_PER_LOGIT = 54  # bf16 logits to fp32, shift, log-softmax, and back
ADAMW_FOREACH_ACCESSES = 20  # each kernel of the multi-tensor path reads and writes its operands
ADAMW_FUSED_ACCESSES = 7  # reads p, g, m, v; writes p, m, v
CLIP_ACCESSES = 3  # the norm reads the gradient, the scaling reads and writes it
AMP_CAST_BYTES = 12  # fp32 weights read, bf16 written; bf16 gradients read, fp32 written
BUCKET_COPIES = 4  # gradient into the bucket and out of it, a read and a write each


def eager_attention_bytes(batch: int, heads: int, tokens: int, layers: int) -> int:
    """Bytes of the element-wise kernels of eager attention, forward and backward (bf16, fp32 softmax)."""
    return EAGER_BYTES_PER_SCORE * batch * heads * tokens * tokens * layers


def logit_chain_bytes(batch: int, tokens: int, vocab: int) -> int:
    """Bytes of the loss on materialised logits, forward and backward, without the head's products."""
    return LOSS_BYTES_PER_LOGIT * batch * tokens * vocab


def optimizer_bytes(parameters: int, accesses: int, itemsize: int) -> int:
    """Bytes of an optimizer step that touches so many numbers for each parameter."""
    return parameters * accesses * itemsize


def clip_bytes(parameters: int, itemsize: int) -> int:
    """Bytes of clipping gradients by their norm."""
    return optimizer_bytes(parameters, CLIP_ACCESSES, itemsize)


def adamw_and_clip_bytes(parameters: int, itemsize: int) -> int:
    """Bytes of gradient clipping and a multi-tensor AdamW step: 46 per parameter with 2-byte numbers."""
    return optimizer_bytes(parameters, ADAMW_FOREACH_ACCESSES, itemsize) + clip_bytes(parameters, itemsize)


def amp_cast_bytes(parameters: int) -> int:
    """Bytes of autocast's copies of the weights and back of the gradients, once per step."""
    return AMP_CAST_BYTES * parameters


def bucket_copy_bytes(gradient_bytes: int) -> int:
    """Bytes of copying gradients into DDP's buckets and out, which gradient_as_bucket_view=True saves."""
    return BUCKET_COPIES * gradient_bytes


def loss_chunk_rows(batch: int, tokens: int, vocab: int, hidden: int) -> int:
    """Rows of a chunk of Liger's fused linear cross entropy: a power of two that keeps chunks near B·T x hidden."""
    rows = math.ceil(batch * tokens / math.ceil(vocab / hidden))
    return 1 << (rows - 1).bit_length()


def loss_chunks(batch: int, tokens: int, vocab: int, hidden: int) -> int:
    """Chunks of Liger's fused linear cross entropy."""
    return math.ceil(batch * tokens / loss_chunk_rows(batch, tokens, vocab, hidden))


def loss_chunk_bytes(batch: int, tokens: int, vocab: int, hidden: int, itemsize: int) -> int:
    """Bytes of accumulating the head's gradient in place, once for each chunk: a read and a write of V·h."""
    return loss_chunks(batch, tokens, vocab, hidden) * 2 * vocab * hidden * itemsize
