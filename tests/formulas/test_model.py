"""Shapes from configurations: what is read, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from diagnose.formulas.model import ModelShape

TINY: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}


@pytest.mark.parametrize("model_type", ["falcon", "deepseek_v3", "t5", "vit", "mamba", "", "LLAMA"])
def test_an_unknown_type_has_no_shape(model_type: str) -> None:
    assert ModelShape.from_config(model_type, TINY) is None


@pytest.mark.parametrize("missing", ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"])
def test_a_missing_size_leaves_no_shape(missing: str) -> None:
    assert ModelShape.from_config("llama", {k: v for k, v in TINY.items() if k != missing}) is None


@pytest.mark.parametrize(
    ("model_type", "entry"),
    [
        ("llama", {"attention_bias": True}),
        ("gpt_neox", {"attention_bias": False}),
        ("opt", {"word_embed_proj_dim": 32}),
        ("qwen3_moe", {"decoder_sparse_step": 2, "num_experts": 4, "num_experts_per_tok": 2}),
        ("mixtral", {"num_local_experts": 8}),  # how many of them a token takes is not told
        ("qwen2", {"sliding_window": 64}),  # which layers slide is not told
        ("llama", {"hidden_size": "64"}),
        ("gpt2", {"add_cross_attention": True}),
        ("bert", {"is_decoder": True}),  # a causal mask in the place of a full one
    ],
)
def test_a_variant_that_changes_the_counts_has_no_shape(model_type: str, entry: dict[str, Any]) -> None:
    assert ModelShape.from_config(model_type, {**TINY, **entry}) is None


def test_sizes_that_are_left_out_follow_from_the_others() -> None:
    shape = ModelShape.from_config("llama", {k: v for k, v in TINY.items() if k != "num_key_value_heads"})

    assert shape is not None
    assert (shape.kv_heads, shape.head_dim) == (4, 16)


@pytest.mark.parametrize(
    ("model_type", "windowed"), [("mistral", 6), ("gemma2", 3), ("gemma3_text", 5), ("llama", 0), ("qwen3", 0)]
)
def test_layers_with_a_sliding_window(model_type: str, windowed: int) -> None:
    window = {} if windowed == 0 else {"sliding_window": 128}

    shape = ModelShape.from_config(model_type, {**TINY, **window})

    assert shape is not None
    assert shape.windowed_layers == windowed


@pytest.mark.parametrize(
    ("class_name", "has_logits"),
    [
        ("LlamaForCausalLM", True),
        ("PeftModelForCausalLM", True),
        ("LlamaModel", False),
        ("LlamaForSequenceClassification", False),
    ],
)
def test_only_a_language_model_multiplies_with_the_vocabulary(class_name: str, has_logits: bool) -> None:
    shape = ModelShape.from_config("llama", TINY, class_name)

    assert shape is not None
    assert shape.head_weights == (64 * 1000 if has_logits else 0)


def test_a_class_not_of_transformers_has_no_shape() -> None:
    assert ModelShape.from_config("llama", TINY, "MyRewardModel") is None


def test_a_mixture_multiplies_with_the_experts_that_a_token_takes() -> None:
    config = {**TINY, "num_local_experts": 8, "num_experts_per_tok": 2}
    attention, expert, router = 2 * 64 * (64 + 32), 3 * 64 * 128, 64 * 8

    shape = ModelShape.from_config("mixtral", config)

    assert shape is not None
    assert shape.matmul_parameters == 6 * (attention + 2 * expert + router) + 64 * 1000
    assert shape.parameters - shape.active_parameters == 6 * 6 * expert


def test_a_tied_head_is_multiplied_but_stored_once() -> None:
    shape = ModelShape.from_config("llama", {**TINY, "tie_word_embeddings": True})
    assert shape is not None
    untied = replace(shape, tied=False)

    assert untied.matmul_parameters == shape.matmul_parameters
    assert untied.parameters == shape.parameters + 64 * 1000
    assert untied.parameters_without_embeddings == shape.parameters_without_embeddings + 64 * 1000
