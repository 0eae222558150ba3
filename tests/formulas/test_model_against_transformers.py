"""Parameter counts against the models that transformers builds, without their memory."""

from typing import Any

import pytest

from diagnose.formulas.model import ModelShape
from diagnose.probes.facts.model import DIMENSIONS

pytestmark = pytest.mark.capture

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LLAMA_1B = {
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
}
QWEN_05B = {
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
OPT_13B = {
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "ffn_dim": 8192,
    "word_embed_proj_dim": 2048,
}
LATER = (
    "arcee", "cohere", "cohere2", "cwm", "ernie4_5", "exaone4", "glm", "glm4", "granitemoe", "helium",
    "internlm3", "minimax_m2", "ministral3", "olmo2", "olmo3", "seed_oss", "smollm3", "starcoder2", "vaultgemma",
)  # fmt: skip
MODELS: list[tuple[str, dict[str, Any]]] = [
    ("llama", LLAMA_1B),
    ("llama", {**LLAMA_1B, "tie_word_embeddings": False}),
    ("opt", OPT_13B),
    ("qwen2", QWEN_05B),
    # the default sizes of the types:
    ("llama", {}),
    ("mistral", {}),  # 7B
    ("granite", {}),
    ("phi3", {}),  # mini
    ("qwen2", {}),
    ("qwen3", {}),
    ("qwen3", {**QWEN_05B, "head_dim": 128}),
    ("gemma", {}),  # 7B
    ("gemma2", {}),  # 2B
    ("gemma3_text", {}),
    ("mixtral", {}),  # 8x7B
    ("qwen3_moe", {}),
    ("olmoe", {}),  # 1B-7B
    ("gpt2", {}),
    ("gpt2", {"n_inner": 1000}),
    ("gpt_neox", {}),  # 20B
    *((model_type, {}) for model_type in LATER),
]
LAYER_TYPES = ("cohere2", "cwm", "exaone4", "olmo3", "vaultgemma")  # in a list, which no record holds
ENCODERS: dict[str, dict[str, Any]] = {"bert": {}, "roberta": {"type_vocab_size": 1}}  # as published


def ids(model: Any) -> str | None:
    return model if isinstance(model, str) else "-".join(map(str, model.values())) or "default"


def recorded(config: Any) -> dict[str, Any]:
    """What the capture record holds of a configuration."""
    return {name: value for name in DIMENSIONS if isinstance(value := getattr(config, name, None), int)}


def without_memory(auto_class: Any, config: Any) -> Any:
    with torch.device("meta"):
        return auto_class.from_config(config)


def multiplied(model: Any) -> int:
    """Elements of every matrix that is no table, and of the head where a table is the head."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    matrices = sum(p.numel() for p in model.parameters() if p.dim() >= 2 and id(p) not in tables)
    head = model.get_output_embeddings()
    return matrices + (head.weight.numel() if head is not None and id(head.weight) in tables else 0)


def assert_counts(shape: ModelShape | None, model: Any) -> None:
    assert shape is not None
    assert shape.parameters == model.num_parameters()
    assert shape.parameters_without_embeddings == model.num_parameters(exclude_embeddings=True)
    assert shape.matmul_parameters + shape.inactive_parameters == multiplied(model)


@pytest.mark.parametrize(("model_type", "sizes"), MODELS, ids=ids)
def test_a_decoder_counts_as_transformers_builds_it(model_type: str, sizes: dict[str, Any]) -> None:
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    model = without_memory(transformers.AutoModelForCausalLM, config)

    known = config.to_dict() if model_type in LAYER_TYPES else recorded(config)
    assert_counts(ModelShape.from_config(model_type, known, type(model).__name__), model)


@pytest.mark.parametrize("model_type", LAYER_TYPES)
def test_layers_with_a_window_are_counted_in_the_file_and_unknown_in_a_record(model_type: str) -> None:
    config = transformers.AutoConfig.for_model(model_type)
    shape = ModelShape.from_config(model_type, config.to_dict())

    assert shape is not None
    assert shape.windowed_layers == config.layer_types.count("sliding_attention")
    assert ModelShape.from_config(model_type, recorded(config)) is None


@pytest.mark.parametrize(
    ("model_type", "variant"),
    [
        ("cohere", {"use_qk_norm": True}), ("ernie4_5", {"use_bias": True}), ("starcoder2", {"use_bias": False}),
        ("glm", {"attention_bias": False}), ("seed_oss", {"attention_out_bias": True}),
    ],
)  # fmt: skip
def test_a_variant_that_changes_the_counts_is_unknown(model_type: str, variant: dict[str, bool]) -> None:
    config = transformers.AutoConfig.for_model(model_type, **variant)

    assert ModelShape.from_config(model_type, config.to_dict()) is None


@pytest.mark.parametrize("model_type", ENCODERS)
def test_an_encoder_counts_as_transformers_builds_it(model_type: str) -> None:
    config = transformers.AutoConfig.for_model(model_type, **ENCODERS[model_type])
    model = without_memory(transformers.AutoModelForMaskedLM, config)

    assert_counts(ModelShape.from_config(model_type, recorded(config)), model)


def test_a_bare_encoder_has_no_head() -> None:
    config = transformers.AutoConfig.for_model("bert")
    with torch.device("meta"):
        model = transformers.BertModel(config, add_pooling_layer=False)

    assert_counts(ModelShape.from_config("bert", recorded(config), "BertModel"), model)


def test_shared_experts_count_where_their_width_is_known() -> None:
    config = transformers.AutoConfig.for_model("qwen2_moe")
    model = without_memory(transformers.AutoModelForCausalLM, config)

    assert_counts(ModelShape.from_config("qwen2_moe", config.to_dict()), model)
    assert_counts(ModelShape.from_config("qwen2_moe", recorded(config)), model)


@pytest.mark.parametrize(
    ("model_type", "sizes"),
    [
        ("deepseek_v2", {"num_experts_per_tok": 6, "first_k_dense_replace": 1}),
        ("deepseek_v2", {"num_experts_per_tok": 6, "q_lora_rank": None}),  # Lite
        ("deepseek_v3", {}),
    ],
    ids=ids,
)
def test_latent_attention_counts_as_transformers_builds_it(model_type: str, sizes: dict[str, Any]) -> None:
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    model = without_memory(transformers.AutoModelForCausalLM, config)

    assert_counts(ModelShape.from_config(model_type, config.to_dict(), type(model).__name__), model)


def test_gpt_oss_counts_the_biases_of_its_experts_and_the_sinks_of_its_heads() -> None:
    config = transformers.AutoConfig.for_model("gpt_oss")
    shape = ModelShape.from_config("gpt_oss", recorded(config))

    assert shape is not None
    assert shape.parameters == without_memory(transformers.AutoModelForCausalLM, config).num_parameters()
    assert (shape.window, shape.windowed_layers) == (128, 18)


def test_linear_layers_of_llama_hold_every_multiplied_parameter() -> None:
    model = without_memory(transformers.AutoModelForCausalLM, transformers.AutoConfig.for_model("llama", **LLAMA_1B))

    linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear))

    assert linear == 1_235_746_816
