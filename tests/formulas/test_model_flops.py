"""FLOPs of a token: a causal mask, and what each convention counts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_flops import (
    CONVENTIONS,
    Convention,
    attention_flops,
    causal_pairs_per_token,
    dense_flops_per_token,
    flops_per_token,
    partly_frozen_flops_per_token,
)
from diagnose.formulas.named_models import NAMED_MODELS

SHAPE = ModelShape(hidden=64, layers=4, heads=8, kv_heads=2, ffn=256, vocab=1000)


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_causal_pairs_of_a_token_are_the_exact_ones_to_leading_order(tokens: int, window: int) -> None:
    shape = replace(SHAPE, window=window, windowed_layers=SHAPE.layers)

    exact = sum(min(place, window) for place in range(1, tokens + 1)) / tokens

    assert abs(causal_pairs_per_token(shape, tokens) - exact) <= 0.5


def test_a_window_counts_in_its_layers_only() -> None:
    full, windowed = replace(SHAPE, window=0), replace(SHAPE, window=10, windowed_layers=1)

    difference = flops_per_token(full, 100, "causal") - flops_per_token(windowed, 100, "causal")

    assert difference == pytest.approx(12 * 64 * (100 / 2 - (10 - 10 * 10 / 200)))
    assert flops_per_token(full, 100, "palm") == flops_per_token(windowed, 100, "palm")


def test_an_encoder_has_no_causal_discount() -> None:
    encoder = replace(SHAPE, causal=False)

    assert flops_per_token(encoder, 100, "causal") == flops_per_token(encoder, 100, "palm")


def test_grouped_queries_leave_attention_alone() -> None:
    full, grouped = replace(SHAPE, kv_heads=8), replace(SHAPE, kv_heads=1)

    assert attention_flops(full, 100) == attention_flops(grouped, 100)
    assert flops_per_token(full, 100) > flops_per_token(grouped, 100)  # by the key and value projections alone


@pytest.mark.parametrize("convention", ["palm", "causal", "6n"])
def test_a_token_pays_for_the_experts_it_takes(convention: Convention) -> None:
    few = replace(SHAPE, experts=8, experts_per_token=2, expert_ffn=128)
    many = replace(few, experts=64)
    more_router = 4 * 64 * (64 - 8)

    assert flops_per_token(many, 100, convention) - flops_per_token(few, 100, convention) == 6 * more_router


def test_the_conventions_are_in_order() -> None:
    per_token = {c: flops_per_token(NAMED_MODELS["Llama-3.2-1B"], 1024, c) for c in CONVENTIONS}

    assert sorted(CONVENTIONS, key=per_token.__getitem__) == ["hf", "6n", "causal", "palm", "6n-attention"]


@given(st.integers(1, 8192))
def test_only_attention_grows_with_the_length(tokens: int) -> None:
    assert flops_per_token(SHAPE, tokens) - flops_per_token(SHAPE, 0) == 12 * 4 * 64 * tokens
    assert flops_per_token(SHAPE, tokens, "6n") == 6 * SHAPE.parameters
    assert flops_per_token(SHAPE, tokens, "hf") == 6 * (SHAPE.parameters - 1000 * 64)


def test_frozen_weights_cost_four_instead_of_six() -> None:
    assert partly_frozen_flops_per_token(0, 100) == dense_flops_per_token(100) == 600
    assert partly_frozen_flops_per_token(100, 1) == 406
