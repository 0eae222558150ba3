"""The cost of an output layer fused with its cross entropy, as Liger's kernel computes it: in chunks of tokens.

Liger takes as many chunks as keep a chunk's logits at the size of the layer's input (liger-kernel,
`fused_linear_cross_entropy_forward`). Each chunk reads the weights twice, and reads and writes their gradient.
"""

HALF_SPEED_ROWS = 190  # a product of so many rows takes twice as long as its part of a large one
STEEPNESS = 1.5
_PRODUCTS = 3  # logits, gradient of the input, gradient of the weights
_PASSES = 4  # over bytes of the size of the weights


def chunks(tokens: int, hidden: int, vocabulary: int) -> tuple[int, int]:
    """Number of chunks and rows of one.

    Args:
        tokens: of one micro-batch.
        hidden: width of the layer's input.
        vocabulary: width of its output.
    """
    factor = -(-vocabulary // hidden)
    rows = min(1 << (-(-tokens // factor) - 1).bit_length(), tokens)
    return -(-tokens // rows), rows


def chunked_extra_s(
    tokens: int, hidden: int, vocabulary: int, flops_per_s: float, bytes_per_s: float, value_bytes: int = 2
) -> float:
    """Seconds that the three products take in chunks beyond what they take at once; one micro-batch.

    A product of r rows takes 1 + (190 / r) ** 1.5 times its part of a large one, and no less than its bytes do. Fitted
    to four measured jobs: Llama-3.2-1B in bf16 on H200, 7 x 1024 tokens, 25.5 ms more in products (this says 25.6); a
    model 1024 wide on H200, 16 x 512 tokens, 16 ms (14.6); Llama-3.2-1B on H100, 14 x 1024 and 37 x 1024 tokens: 0.70
    and 0.26 of the unfused loss are left (0.79 and 0.20).

    Args:
        tokens, hidden, vocabulary: as for `chunks`.
        flops_per_s: of the fastest product.
        bytes_per_s: of the memory.
        value_bytes: of a weight.
    """
    number, rows = chunks(tokens, hidden, vocabulary)
    products_s = 2.0 * _PRODUCTS * hidden * vocabulary * tokens / flops_per_s
    passes_s = number * float(_PASSES) * value_bytes * hidden * vocabulary / bytes_per_s
    return max(products_s * (HALF_SPEED_ROWS / rows) ** STEEPNESS, passes_s - products_s)
