"""Kernels that exist for a model, a precision and a GPU: Liger's, PyTorch's fused attention, flash attention."""

import json
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

_LIGER_TABLE = Path(__file__).parents[1] / "data" / "liger_model_types.json"
_WITHOUT_SDPA = ("gemma2", "gpt_oss", "vaultgemma")  # of the known types, by `_supports_sdpa` of transformers 5.24
_FIRST_OF_FLASH, _LARGEST_HEAD = 8.0, 256
_FIRST_OF_TRITON = 7.0


@lru_cache(maxsize=1)
def liger_types() -> Collection[str]:
    """The model types of transformers that Liger 0.8.5 patches."""
    return frozenset(json.loads(_LIGER_TABLE.read_text(encoding="utf-8"))["model_types"])


def has_liger(model_type: str) -> bool:
    """Whether Liger has kernels for a model of this type."""
    return model_type in liger_types()


def has_sdpa(model_type: str) -> bool:
    """Whether transformers computes the attention of this type by scaled_dot_product_attention."""
    return model_type not in _WITHOUT_SDPA


def flash_blocked(capability: float | None, precision: str | None = None, head_size: int | None = None) -> str:
    """The reason why flash attention cannot run: "old GPU", "fp32" or "head size"; "" for none of what is known.

    Args:
        capability: compute capability of an NVIDIA GPU; None for one of another maker, or if unknown.
        precision: of queries and keys; None if unknown.
        head_size: width of a head; None if unknown.
    """
    if capability is not None and capability < _FIRST_OF_FLASH:
        return "old GPU"
    if precision in ("fp32", "tf32"):
        return "fp32"
    return "head size" if head_size and head_size > _LARGEST_HEAD else ""


def has_triton(capability: float | None) -> bool:
    """Whether Triton, which torch.compile and Liger write their kernels in, compiles for the GPU."""
    return capability is None or capability >= _FIRST_OF_TRITON
