"""FLOPs, fewest bytes and fewest seconds of matrix products and attention. Bandwidth in bytes/s, peaks in FLOP/s."""

from diagnose.formulas.model_flops import BACKWARD_PRODUCTS, FORWARD_PRODUCTS

FLASH_BACKWARD_PRODUCTS = 5


def gemm_flops(m: int, n: int, k: int, batch: int = 1) -> int:
    """FLOPs of a product [m, k] x [k, n]: 2·m·n·k."""
    return 2 * batch * m * n * k


def gemm_bytes(m: int, n: int, k: int, itemsize: int, batch: int = 1) -> int:
    """Fewest bytes of a product [m, k] x [k, n]: each matrix moves once."""
    return itemsize * batch * (m * k + k * n + m * n)


def gemm_intensity(m: int, n: int, k: int, itemsize: int) -> float:
    """FLOP/B of a product [m, k] x [k, n]: (2/s) / (1/m + 1/n + 1/k), so below the smallest size for 2-byte numbers."""
    return (2 / itemsize) / (1 / m + 1 / n + 1 / k)


def lower_bound_s(flops: float, moved_bytes: float, peak_flops: float, bytes_per_s: float) -> float:
    """Fewest seconds for the FLOPs and the bytes, whichever takes longer."""
    return max(flops / peak_flops, moved_bytes / bytes_per_s)


def attention_products_flops(
    products: int, batch: int, heads: int, query_tokens: int, key_tokens: int, head_dim: int
) -> int:
    """FLOPs of so many batched products of query_tokens x key_tokens x head_dim; the mask is not discounted."""
    return products * gemm_flops(query_tokens, key_tokens, head_dim, batch * heads)


def sdpa_flops(batch: int, heads: int, query_tokens: int, key_tokens: int, head_dim: int) -> int:
    """FLOPs of attention forward, QKᵀ and AV: 4·B·H·Tq·Tk·d (torch.utils.flop_counter)."""
    return attention_products_flops(FORWARD_PRODUCTS, batch, heads, query_tokens, key_tokens, head_dim)


def sdpa_backward_flops(batch: int, heads: int, query_tokens: int, key_tokens: int, head_dim: int) -> int:
    """FLOPs that a fused attention backward executes: 10·B·H·Tq·Tk·d, as QKᵀ is computed again."""
    return attention_products_flops(FLASH_BACKWARD_PRODUCTS, batch, heads, query_tokens, key_tokens, head_dim)


def sdpa_model_flops(batch: int, heads: int, query_tokens: int, key_tokens: int, head_dim: int) -> int:
    """Model FLOPs of attention forward and backward: 12·B·H·Tq·Tk·d; the fused kernels execute 14 (PaLM, app. B)."""
    products = FORWARD_PRODUCTS + BACKWARD_PRODUCTS
    return attention_products_flops(products, batch, heads, query_tokens, key_tokens, head_dim)


def score_intensity(head_dim: int) -> float:
    """FLOP/B of a product with materialised 2-byte attention scores, many tokens long: d/2."""
    return head_dim / 2
