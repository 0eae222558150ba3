"""Model FLOPs of a training token or step by five conventions, and utilisation of the peak.

A multiply-add is 2 FLOPs. Training costs three forward passes: one forward, and two in the backward pass, for the
gradients of inputs and of weights. Model FLOPs leave out whatever is computed again; hardware FLOPs count it.
"""

from collections.abc import Callable
from typing import Literal, get_args

from diagnose.formulas.model import ModelShape

Convention = Literal["palm", "causal", "6n", "6n-attention", "hf"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)
FORWARD, BACKWARD, BACKWARD_OF_FROZEN = 2, 4, 2
FORWARD_PRODUCTS, BACKWARD_PRODUCTS = 2, 4  # of attention: QKᵀ and AV, and the gradients of both sides of each


def attention_flops(shape: ModelShape, pairs: float) -> float:
    """Forward and backward FLOPs of QKᵀ and AV in all layers: 12·L·H·d for each query-key pair (PaLM, appendix B).

    With d the mean width of a head's queries and values, where they differ.

    Grouped queries change nothing here: both products have as many heads as there are queries.
    """
    return 3 * FORWARD * shape.layers * shape.heads * (shape.head_dim + shape.value_dim) * pairs


def causal_pairs_per_token(shape: ModelShape, tokens: float) -> float:
    """Mean query-key pairs of a token over the layers, to leading order: T/2, and W - W²/2T in a sliding window.

    Megatron's convention. An encoder attends to all T, in a window to half of W on either side.
    """
    span = tokens if shape.causal else 2 * tokens
    reach = min(shape.window or span, span)
    windowed = shape.windowed_layers * (reach - reach * reach / (2 * span))
    return (windowed + (shape.layers - shape.windowed_layers) * span / 2) / shape.layers


def dense_flops_per_token(parameters: float) -> float:
    """6·N FLOPs of training one token of a dense model, attention left out (Kaplan et al. 2020)."""
    return (FORWARD + BACKWARD) * parameters


def linear_flops_per_token(shape: ModelShape) -> float:
    """Forward and backward FLOPs of everything but attention's own products: 6 for each multiplied parameter."""
    return dense_flops_per_token(shape.matmul_parameters)


def _palm(shape: ModelShape, tokens: float) -> float:
    return linear_flops_per_token(shape) + attention_flops(shape, tokens)


def _causal(shape: ModelShape, tokens: float) -> float:
    return linear_flops_per_token(shape) + attention_flops(shape, causal_pairs_per_token(shape, tokens))


def _six_n(shape: ModelShape, tokens: float) -> float:
    return dense_flops_per_token(shape.active_parameters)


def _hf(shape: ModelShape, tokens: float) -> float:
    return dense_flops_per_token(shape.parameters_without_embeddings)


def _six_n_and_attention(shape: ModelShape, tokens: float) -> float:
    """6·N + 12·L·H·d·T with N all parameters, the embedding and norms too."""
    return dense_flops_per_token(shape.active_parameters) + attention_flops(shape, tokens)


_FLOPS_PER_TOKEN: dict[Convention, Callable[[ModelShape, float], float]] = {
    "palm": _palm,
    "causal": _causal,
    "6n": _six_n,
    "6n-attention": _six_n_and_attention,
    "hf": _hf,
}


def flops_per_token(shape: ModelShape, tokens: float, convention: Convention = "palm") -> float:
    """Model FLOPs, forward and backward, of training one token.

    Args:
        shape: the model.
        tokens: length of a sequence; of packed documents, the one that costs a token as much attention: ΣL² / ΣL.
        convention: which FLOPs are model FLOPs.
            "palm": 6 for each parameter that is multiplied and attention without a causal discount (PaLM, appendix B).
            "causal": the same with the attention that the mask lets through (Megatron-LM).
            "6n": 6 for each parameter, attention left out; of a mixture of experts the active ones (Kaplan et al.).
            "6n-attention": the same and attention without a causal discount (nanotron, llm-foundry).
            "hf": 6 for each parameter outside the embeddings, so without a tied head (transformers
            `floating_point_ops`); it counts every expert.
    """
    return _FLOPS_PER_TOKEN[convention](shape, tokens)


def partly_frozen_flops_per_token(frozen_parameters: float, trained_parameters: float) -> float:
    """4·N_frozen + 6·N_trained: a frozen weight gets no gradient, but passes one on to earlier layers.

    An upper bound if frozen layers come before the first trained one: those need no backward pass at all.
    """
    return (FORWARD + BACKWARD_OF_FROZEN) * frozen_parameters + dense_flops_per_token(trained_parameters)


def mfu_share(flops: float, seconds: float, peak_flops: float) -> float:
    """Model FLOPs utilisation: FLOPs over what the peak (FLOP/s) allows in that time. Share of the peak (PaLM)."""
    return flops / (peak_flops * seconds)


def useful_mfu_share(mfu: float, padding_share: float) -> float:
    """MFU that counts only tokens that are not padding; `padding_share` is of all tokens of the batches."""
    return mfu * (1 - padding_share)
