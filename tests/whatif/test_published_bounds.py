"""What published pairs say that a change buys at most, of a simulated job of their shape: no rule may promise more.

The pairs ran on one H100: Llama-3.1-8B under LoRA of rank 16 in bf16, batch 4, 1,024 tokens. FlashAttention 2 in place
of SDPA was 1.015 times as fast, and Liger's kernels 1.051 times (MakazhanAlpamys/Soup, gate-h100-validation.md).
"""

from collections.abc import Mapping
from functools import cache
from math import prod

from accuracy.answer import answered
from simulator import WholeJob
from simulator.operators import Code, Shape

FLASH_AT_MOST, LIGER_AT_MOST = 1.05, 1.15
LIGER = ("unfused-norm", "unfused-rope", "unfused-glu", "unfused-loss")
ATTENTION = ("attention-off-flash-path", "older-flash-kernels", "unfused-attention")
QUARTER = Shape(layers=8, width=4096, heads=32, inner=21_504, vocabulary=32_064, batch=4, length=1024)


@cache
def best_cases() -> Mapping[str, float | None]:
    """A quarter of the model's layers and of its vocabulary, with norms, loss and adapters of many kernels each."""
    code = Code(adapts=True, fused_norm=False, fused_loss=False)
    said = answered(WholeJob(device="H100-SXM5-80GB", shape=QUARTER, code=code))
    return {rule: high for rule, (_, high) in said.promised.items()}


def test_another_flash_attention_is_not_promised_more_than_was_published() -> None:
    assert all((best_cases().get(rule) or 1.0) <= FLASH_AT_MOST for rule in ATTENTION)


def test_liger_is_promised_something_and_not_more_than_was_published() -> None:
    promised = [high for rule in LIGER if (high := best_cases().get(rule)) is not None]

    assert promised
    assert prod(promised) <= LIGER_AT_MOST
