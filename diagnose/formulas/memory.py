"""Device memory of training state and of large activations."""

GIB = 1 << 30

MIXED_ADAMW_BYTES = 2 + 2 + 4 + 4 + 4  # 16-bit weight and gradient; fp32 master weight and both moments
FP32_ADAMW_BYTES = 4 + 4 + 4 + 4  # weight, gradient and both moments
BF16_ADAMW_BYTES = 2 + 2 + 2 + 2
EAGER_SCORE_BYTES = 2 + 4  # 16-bit probabilities and the fp32 softmax


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
