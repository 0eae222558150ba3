"""Parts that transformers' model types have, and the configuration entries that size them.

A type is listed when its parameter counts equal those of the model that transformers builds. Read off the modeling code
of transformers 5.23.
"""

import re
from collections.abc import Mapping
from typing import Any

Fields = dict[str, Any]

_LAYER_NORMS: Fields = {"gated": False, "bias": True}
_ENCODER: Fields = {**_LAYER_NORMS, "tied": True, "causal": False, "head_transform": True, "norms_outside": 2}
_FAMILIES: dict[str, Fields] = {
    "llama": {},
    "mistral": {},
    "granite": {},
    "phi3": {},
    "qwen2": {"qkv_bias": True},
    "qwen3": {"qk_norm": True},
    "gemma": {"tied": True},
    "gemma2": {"tied": True, "norms_per_layer": 4},
    "gemma3_text": {"tied": True, "norms_per_layer": 4, "qk_norm": True},
    "mixtral": {},
    "qwen2_moe": {"qkv_bias": True, "shared_experts": 1, "shared_gated": True},
    "qwen3_moe": {"qk_norm": True},
    "olmoe": {"qk_norm_whole": True},
    "gpt_oss": {"attention_sinks": True},
    "deepseek_v2": {},
    "deepseek_v3": {},
    "arcee": {"gated": False},
    "cohere": {"norms_per_layer": 1},
    "cohere2": {"norms_per_layer": 1},
    "cwm": {},
    "ernie4_5": {},
    "exaone4": {"qk_norm": True},
    "glm": {"qkv_bias": True},
    "glm4": {"qkv_bias": True, "norms_per_layer": 4},
    "granitemoe": {},
    "helium": {},
    "internlm3": {},
    "minimax_m2": {"qk_norm_whole": True},
    "ministral3": {},
    "olmo2": {"qk_norm_whole": True},
    "olmo3": {"qk_norm_whole": True},
    "seed_oss": {"qkv_bias": True},
    "smollm3": {},
    "starcoder2": _LAYER_NORMS,
    "vaultgemma": {"tied": True},
    "opt": {**_LAYER_NORMS, "tied": True},
    "gpt2": {**_LAYER_NORMS, "tied": True},
    "gpt_neox": _LAYER_NORMS,
    "bert": {**_ENCODER, "token_types": 2},
    "roberta": {**_ENCODER, "token_types": 1},
}
MODEL_TYPES = tuple(_FAMILIES)
_LARGEST = 1 << 30  # of any size: no model has more, and products of a few of them stay finite
_ALIASES = {
    "hidden": ("hidden_size", "n_embd"),
    "layers": ("num_hidden_layers", "n_layer"),
    "heads": ("num_attention_heads", "n_head"),
    "ffn": ("intermediate_size", "ffn_dim", "n_inner"),
    "vocab": ("vocab_size",),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
}
_OPTIONAL = ("kv_heads", "head_dim")
_POSITION_ROWS_BEFORE_THE_FIRST = {"opt": 2, "gpt2": 0, "bert": 0, "roberta": 0}
_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForPreTraining")
_WITHOUT_LOGITS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_WIDTH_OF_EXPERTS = {
    "mixtral": "intermediate_size",
    "olmoe": "intermediate_size",
    "gpt_oss": "intermediate_size",
    "granitemoe": "intermediate_size",
    "minimax_m2": "intermediate_size",
    "qwen2_moe": "moe_intermediate_size",
    "qwen3_moe": "moe_intermediate_size",
    "deepseek_v2": "moe_intermediate_size",
    "deepseek_v3": "moe_intermediate_size",
}
_LATENT = ("deepseek_v2", "deepseek_v3")
_WINDOW_ON_EVERY_LAYER = ("mistral", "mixtral", "phi3")
_FULL_ATTENTION_EVERY = {"gemma2": 2, "gemma3_text": 6, "gpt_oss": 2}


def shape_fields(model_type: str, config: Mapping[str, Any], class_name: str | None = None) -> Fields | None:
    """The fields of `ModelShape`; None when the type is unknown or an entry that decides a size is missing."""
    if model_type not in _FAMILIES or not _is_regular(model_type, config):
        return None
    fields = {"model_type": model_type, **_FAMILIES[model_type]}
    if isinstance(tied := config.get("tie_word_embeddings"), bool):
        fields["tied"] = tied
    for read in (_sizes, _experts, _latents, _window):
        if (part := read(model_type, config)) is None:
            return None
        fields |= part
    return _with_head(fields, model_type, class_name)


def _sizes(model_type: str, config: Mapping[str, Any]) -> Fields | None:
    sizes: Fields = {field: _first(config, names) for field, names in _ALIASES.items()}
    if model_type == "gpt2":
        sizes["ffn"] = sizes["ffn"] or 4 * sizes["hidden"]
    if any(size == 0 for field, size in sizes.items() if field not in _OPTIONAL):
        return None
    if model_type in _POSITION_ROWS_BEFORE_THE_FIRST:
        rows = _first(config, ("max_position_embeddings", "n_positions"))
        if types := _first(config, ("type_vocab_size",)):
            sizes["token_types"] = types
        sizes["positions"] = rows + _POSITION_ROWS_BEFORE_THE_FIRST[model_type]
        return sizes if rows else None
    return sizes


def _first(config: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """The first of the entries that is a whole number from 1 to `_LARGEST`, 0 when none is."""
    values = (config.get(name) for name in names)
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and 0 < v <= _LARGEST), 0)


def _is_regular(model_type: str, config: Mapping[str, Any]) -> bool:
    """Whether no entry asks for a variant that changes the counts."""
    projected = config.get("word_embed_proj_dim") not in (None, config.get("hidden_size"))
    biases = {
        "attention_bias": model_type in ("gpt_neox", "gpt_oss", "seed_oss", "glm", "glm4"),
        "attention_out_bias": False,
        "mlp_bias": False,
        "enable_bias": True,
        "qkv_bias": True,
        "use_bias": model_type == "starcoder2",
        "use_qk_norm": False,
    }
    unusual = any(config.get(name, usual) is not usual for name, usual in biases.items())
    uneven = config.get("decoder_sparse_step", 1) != 1 or bool(config.get("mlp_only_layers"))
    return not (projected or unusual or uneven)


def _experts(model_type: str, config: Mapping[str, Any]) -> Fields | None:
    """The experts of a mixture; nothing for a dense type."""
    if model_type not in _WIDTH_OF_EXPERTS:
        return {}
    experts: Fields = {
        "experts": _first(config, ("num_local_experts", "num_experts", "n_routed_experts")),
        "experts_per_token": _first(config, ("num_experts_per_tok",)),
        "expert_ffn": _first(config, (_WIDTH_OF_EXPERTS[model_type],)),
    }
    if model_type == "qwen2_moe":
        experts["shared_ffn"] = _first(config, ("shared_expert_intermediate_size",))
    return experts if all(experts.values()) else None


def _latents(model_type: str, config: Mapping[str, Any]) -> Fields | None:
    """DeepSeek's latent attention, dense first blocks and shared experts; nothing for another type."""
    if model_type not in _LATENT:
        return {}
    plain, rope = (_first(config, (f"qk_{part}_head_dim",)) for part in ("nope", "rope"))
    sizes: Fields = {
        "latent_rank": _first(config, ("kv_lora_rank",)),
        "value_dim": _first(config, ("v_head_dim",)),
        "shared_experts": _first(config, ("n_shared_experts",)),
        "shared_ffn": _first(config, ("moe_intermediate_size",)),
        "head_dim": plain + rope,
        "rope_dim": rope,
    }
    if not all((*sizes.values(), plain, "q_lora_rank" in config, "first_k_dense_replace" in config)):
        return None
    dense = _first(config, ("first_k_dense_replace",))
    return sizes | {"query_rank": _first(config, ("q_lora_rank",)), "dense_layers": dense}


def _with_head(fields: Fields, model_type: str, class_name: str | None) -> Fields | None:
    """The fields with or without logits over the vocabulary, as in the class; None for a class not of transformers."""
    if class_name is None or class_name.endswith(_LANGUAGE_MODELS):
        return fields
    bare = class_name.lower() == re.sub("[_-]", "", model_type) + "model"
    if not bare and not class_name.endswith(_WITHOUT_LOGITS):
        return None
    return {**fields, "lm_head": False, "norms_outside": 1}  # BERT's second one is in the head


def _window(model_type: str, config: Mapping[str, Any]) -> Fields | None:
    """The sliding window and how many layers have it; None if the windowed layers are unknown."""
    window, layers = _first(config, ("sliding_window",)), _first(config, _ALIASES["layers"])
    if not window or config.get("use_sliding_window") is False:
        return {}
    if model_type in _WINDOW_ON_EVERY_LAYER:
        return {"window": window, "windowed_layers": layers}
    if isinstance(kinds := config.get("layer_types"), list) and len(kinds) == layers:
        return {"window": window, "windowed_layers": kinds.count("sliding_attention")}
    if model_type in _FULL_ATTENTION_EVERY:
        return {"window": window, "windowed_layers": layers - layers // _FULL_ATTENTION_EVERY[model_type]}
    return None
