"""FLOPs per token against what torch counts in a forward and backward pass."""

from typing import Any

import pytest
from worked_examples.formulas import executed_flops_per_token
from worked_examples.products import sdpa_backward_flops, sdpa_flops

from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_flops import (
    attention_flops,
    flops_per_token,
    linear_flops_per_token,
    partly_frozen_flops_per_token,
)

pytestmark = pytest.mark.capture

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
flop_counter = pytest.importorskip("torch.utils.flop_counter")

BATCH, TOKENS = 2, 32
SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def tiny(model_type: str, attention: str = "eager", **sizes: Any) -> tuple[Any, ModelShape]:
    config = transformers.AutoConfig.for_model(model_type, **SIZES, **sizes)
    config._attn_implementation = attention
    shape = ModelShape.from_config(model_type, config.to_dict())
    assert shape is not None
    return transformers.AutoModelForCausalLM.from_config(config), shape


def counted_per_token(model: Any) -> float:
    """FLOPs of the products in a forward and backward pass; rotary frequencies, a product without weights, left out."""
    tokens = torch.randint(3, 128, (BATCH, TOKENS))
    with flop_counter.FlopCounterMode(display=False) as counter:
        model(input_ids=tokens, labels=tokens).loss.backward()
    rotary = sum(sum(by.values()) for name, by in counter.get_flop_counts().items() if name.endswith("rotary_emb"))
    return (counter.get_total_flops() - rotary) / (BATCH * TOKENS)


DENSE = (
    "arcee", "cohere", "cohere2", "cwm", "ernie4_5", "exaone4", "gemma2", "gemma3_text", "granite",
    "mistral", "olmo2", "olmo3", "phi3", "qwen3", "seed_oss", "smollm3", "starcoder2", "vaultgemma",
)  # fmt: skip


@pytest.mark.parametrize("model_type", DENSE)
def test_each_dense_type_costs_what_torch_counts(model_type: str) -> None:
    model, shape = tiny(model_type, pad_token_id=0)

    assert counted_per_token(model) == flops_per_token(shape, TOKENS, "palm")


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("model_type", ["llama", "qwen2", "gemma"])
def test_eager_attention_is_the_palm_convention(model_type: str, tied: bool) -> None:
    model, shape = tiny(model_type, tie_word_embeddings=tied)

    assert counted_per_token(model) == flops_per_token(shape, TOKENS, "palm")


def test_fused_attention_executes_one_product_more() -> None:
    heads = (BATCH, 4, TOKENS, 16)
    forward, backward = flop_counter.sdpa_flop_count, flop_counter.sdpa_backward_flop_count
    shape = ModelShape(hidden=64, layers=1, heads=4, ffn=96, vocab=128)

    executed = forward(heads, heads, heads) + backward(heads, heads, heads, heads)

    assert executed == sdpa_flops(BATCH, 4, TOKENS, TOKENS, 16) + sdpa_backward_flops(BATCH, 4, TOKENS, TOKENS, 16)
    assert executed_flops_per_token(shape, TOKENS) == linear_flops_per_token(shape) + executed / (BATCH * TOKENS)


def test_checkpointing_repeats_the_forward_pass_of_the_blocks() -> None:
    model, shape = tiny("llama")
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})
    model.train()
    last = shape.layers * shape.hidden * shape.ffn  # torch stops before a block's last product: nothing needs it
    repeated = shape.matmul_parameters - shape.head_weights - last

    more = counted_per_token(model) - flops_per_token(shape, TOKENS, "palm")

    assert more == 2 * repeated + attention_flops(shape, TOKENS) / 3


def test_frozen_weights_cost_four() -> None:
    model, shape = tiny("llama", tie_word_embeddings=False)
    model.model.embed_tokens.weight.requires_grad_(True)
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.requires_grad_(False)

    linear = partly_frozen_flops_per_token(shape.matmul_parameters, 0)

    assert counted_per_token(model) == linear + attention_flops(shape, TOKENS)


def test_a_mixture_costs_the_experts_a_token_takes() -> None:
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "experts_implementation": "eager"}
    model, shape = tiny("mixtral", **experts)

    assert counted_per_token(model) == flops_per_token(shape, TOKENS, "palm")
