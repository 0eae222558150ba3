"""Parts that transformers' model types have, and the configuration entries that size them.

A type is listed when its parameter counts equal those of the model that transformers builds, but for a learned number
or a bias for each expert that a block may have beside its matrices (Apertus, ERNIE). Read off the modeling code of
transformers 5.24.
"""

import re
from collections.abc import Mapping
from math import ceil
from typing import Any

Fields = dict[str, Any]

_LAYER_NORMS: Fields = {"gated": False, "bias": True}
_ENCODER: Fields = {**_LAYER_NORMS, "tied": True, "causal": False, "head_transform": True, "norms_outside": 2}
_FAMILIES: dict[str, Fields] = {  # with the sizes of heads that a type has if its configuration states none
    "llama": {},
    "mistral": {"kv_heads": 8},
    "granite": {},
    "phi3": {},
    "qwen2": {"qkv_bias": True, "kv_heads": 32},
    "qwen3": {"qk_norm": True, "kv_heads": 32, "head_dim": 128},
    "gemma": {"tied": True, "kv_heads": 16, "head_dim": 256},
    "gemma2": {"tied": True, "norms_per_layer": 4, "kv_heads": 4, "head_dim": 256},
    "gemma3_text": {"tied": True, "norms_per_layer": 4, "qk_norm": True, "kv_heads": 4, "head_dim": 256},
    "mixtral": {"kv_heads": 8},
    "qwen2_moe": {"qkv_bias": True, "shared_experts": 1, "shared_gated": True, "kv_heads": 16},
    "qwen3_moe": {"qk_norm": True, "kv_heads": 4},
    "olmoe": {"qk_norm_whole": True},
    "gpt_oss": {"attention_sinks": True, "kv_heads": 8, "head_dim": 64},
    "deepseek_v2": {},
    "deepseek_v3": {},
    "apertus": {"gated": False, "qk_norm": True},
    "arcee": {"gated": False},
    "cohere": {"tied": True, "norms_per_layer": 1},
    "cohere2": {"tied": True, "norms_per_layer": 1},
    "cwm": {"kv_heads": 8, "head_dim": 128},
    "ernie4_5": {"tied": True, "kv_heads": 2, "head_dim": 128},
    "dots1": {"qk_norm": True, "kv_heads": 32},
    "ernie4_5_moe": {"tied": True, "kv_heads": 4},
    "exaone4": {"qk_norm": True, "kv_heads": 32},
    "flex_olmo": {"qk_norm_whole": True},
    "glm": {"qkv_bias": True, "kv_heads": 2, "head_dim": 128},
    "glm4": {"qkv_bias": True, "norms_per_layer": 4, "kv_heads": 2, "head_dim": 128},
    "glm4_moe": {"kv_heads": 8},
    "granitemoe": {},
    "helium": {"kv_heads": 20, "head_dim": 128},
    "hunyuan_v1_dense": {"qk_norm": True},
    "internlm3": {"kv_heads": 2, "head_dim": 128},
    "minimax_m2": {"qk_norm_whole": True, "kv_heads": 8, "head_dim": 128},
    "ministral3": {"kv_heads": 8, "head_dim": 128},
    "olmo2": {"qk_norm_whole": True},
    "olmo3": {"qk_norm_whole": True},
    "seed_oss": {"qkv_bias": True, "kv_heads": 8, "head_dim": 128},
    "smollm3": {"tied": True, "kv_heads": 4},
    "starcoder2": {**_LAYER_NORMS, "tied": True, "kv_heads": 2},
    "vaultgemma": {"tied": True, "kv_heads": 4, "head_dim": 256},
    "opt": {**_LAYER_NORMS, "tied": True},
    "gpt2": {**_LAYER_NORMS, "tied": True},
    "gpt_neox": _LAYER_NORMS,
    "bert": {**_ENCODER, "token_types": 2},
    "roberta": {**_ENCODER, "token_types": 2},
    "camembert": {**_ENCODER, "token_types": 2},
    "xlm-roberta": {**_ENCODER, "token_types": 2},
    "distilbert": _ENCODER,
    "modernbert": {**_ENCODER, "gated": True, "bias": False},  # the first block has one norm, and one follows the last
}
MODEL_TYPES = tuple(_FAMILIES)
_LARGEST = 1 << 30  # of any size: no model has more, and products of a few of them stay finite
_ALIASES = {
    "hidden": ("hidden_size", "n_embd", "dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "ffn": ("intermediate_size", "ffn_dim", "n_inner", "hidden_dim"),
    "vocab": ("vocab_size",),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
}
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_OPTIONAL = ("kv_heads", "head_dim")
_POSITION_ROWS_BEFORE_THE_FIRST = {
    "opt": 2,
    **dict.fromkeys(("gpt2", "bert", "roberta", "camembert", "xlm-roberta", "distilbert"), 0),
}
_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForPreTraining")
_WITHOUT_LOGITS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_WIDTH_OF_EXPERTS = {
    "mixtral": "intermediate_size",
    "olmoe": "intermediate_size",
    "gpt_oss": "intermediate_size",
    "flex_olmo": "intermediate_size",
    "granitemoe": "intermediate_size",
    "minimax_m2": "intermediate_size",
    "qwen2_moe": "moe_intermediate_size",
    "qwen3_moe": "moe_intermediate_size",
    "deepseek_v2": "moe_intermediate_size",
    "deepseek_v3": "moe_intermediate_size",
    "dots1": "moe_intermediate_size",
    "ernie4_5_moe": "moe_intermediate_size",
    "glm4_moe": "moe_intermediate_size",
}
_LATENT = ("deepseek_v2", "deepseek_v3")
_DENSE_FIRST = (*_LATENT, "dots1", "ernie4_5_moe", "glm4_moe")
_SWITCHES = {"glm4_moe": {"attention_bias": "qkv_bias", "use_qk_norm": "qk_norm"}}
_WINDOW_ON_EVERY_LAYER = ("mistral", "mixtral", "phi3")
_FULL_ATTENTION_EVERY = {"gemma2": 2, "gemma3_text": 6, "gpt_oss": 2}
_ALWAYS_WINDOWED = (*_FULL_ATTENTION_EVERY, "cohere2", "cwm", "exaone4", "modernbert", "olmo3", "vaultgemma")


def shape_fields(model_type: str, config: Mapping[str, Any], class_name: str | None = None) -> Fields | None:
    """The fields of `ModelShape`; None when the type is unknown or an entry that decides a size is missing."""
    if model_type not in _FAMILIES or unusual_entries(model_type, config):
        return None
    fields = {"model_type": model_type, **_FAMILIES[model_type]}
    if isinstance(tied := config.get("tie_word_embeddings"), bool):
        fields["tied"] = tied
    fields |= {field: config.get(entry) is True for entry, field in _SWITCHES.get(model_type, {}).items()}
    for read in (_sizes, _experts, _latents, _dense_first, _window):
        if (part := read(model_type, config)) is None:
            return None
        fields |= part
    return _with_head(fields, model_type, class_name)


def _sizes(model_type: str, config: Mapping[str, Any]) -> Fields | None:
    usual = _FAMILIES[model_type]
    sizes: Fields = {field: _first(config, names) or usual.get(field, 0) for field, names in _ALIASES.items()}
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


def unusual_entries(model_type: str, config: Mapping[str, Any]) -> list[str]:
    """The entries that ask for a variant of a known type that changes its counts."""
    layers = _first(config, _ALIASES["layers"])
    usual: dict[str, tuple[object, ...]] = {
        **{name: (value,) for name, value in _usual_biases(model_type).items() if value is not None},
        "add_cross_attention": (False,),
        "is_decoder": (False,) if "causal" in _FAMILIES[model_type] else (False, True),
        "word_embed_proj_dim": (None, config.get("hidden_size")),
        "decoder_sparse_step": (1,),
        "mlp_only_layers": (None, []),
        "moe_layer_interval": (1,),
        "moe_layer_end_index": (-1, layers - 1),
    }
    return [name for name, values in usual.items() if name in config and config[name] not in values]


def _usual_biases(model_type: str) -> dict[str, bool | None]:
    """The flags of biases and norms as a type has them; None if `_SWITCHES` reads them."""
    usual = {
        "attention_bias": model_type in ("gpt_neox", "gpt_oss", "seed_oss", "glm", "glm4"),
        "attention_out_bias": False,
        "mlp_bias": False,
        "enable_bias": True,
        "qkv_bias": True,
        "use_bias": model_type == "starcoder2",
        "use_qk_norm": False,
        "norm_bias": False,
        "classifier_bias": False,
        "decoder_bias": True,
    }
    return {**usual, **dict.fromkeys(_SWITCHES.get(model_type, ()))}


def _experts(model_type: str, config: Mapping[str, Any]) -> Fields | None:
    """The experts of a mixture; nothing for a dense type."""
    if model_type not in _WIDTH_OF_EXPERTS:
        return {}
    experts: Fields = {
        "experts": _first(config, _EXPERTS),
        "experts_per_token": _first(config, ("num_experts_per_tok", "moe_k")),
        "expert_ffn": _first(config, (_WIDTH_OF_EXPERTS[model_type],)),
    }
    if model_type == "qwen2_moe":
        experts["shared_ffn"] = _first(config, ("shared_expert_intermediate_size",))
    return experts if all(experts.values()) else None


def _latents(model_type: str, config: Mapping[str, Any]) -> Fields | None:
    """DeepSeek's latent attention; nothing for another type."""
    if model_type not in _LATENT:
        return {}
    plain, rope = (_first(config, (f"qk_{part}_head_dim",)) for part in ("nope", "rope"))
    sizes: Fields = {
        "latent_rank": _first(config, ("kv_lora_rank",)),
        "value_dim": _first(config, ("v_head_dim",)),
        "head_dim": plain + rope,
        "rope_dim": rope,
    }
    if not all((*sizes.values(), plain, "q_lora_rank" in config)):
        return None
    return sizes | {"query_rank": _first(config, ("q_lora_rank",))}


def _dense_first(model_type: str, config: Mapping[str, Any]) -> Fields | None:
    """Dense blocks before those with experts, and experts that every token passes; nothing for another type."""
    if model_type not in _DENSE_FIRST:
        return {}
    dense = _count(config, ("first_k_dense_replace", "moe_layer_start_index"))
    shared = _count(config, ("n_shared_experts", "moe_num_shared_experts"))
    if dense is None or shared is None:
        return None
    width = _first(config, (_WIDTH_OF_EXPERTS[model_type],)) if shared else 0
    layers = _first(config, _ALIASES["layers"])
    return {"dense_layers": min(dense, layers), "shared_experts": shared, "shared_ffn": width}


def _count(config: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The same, or 0 if one of the entries says so; None when none is a whole number."""
    return _first(config, names) or (0 if any(config.get(name) == 0 for name in names) else None)


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
    window, layers = _first(config, ("local_attention", "sliding_window")), _first(config, _ALIASES["layers"])
    if config.get("use_sliding_window") is False or not (window or _slides(model_type, config)):
        return {}
    if not window:
        return None
    if model_type in _WINDOW_ON_EVERY_LAYER:
        return {"window": window, "windowed_layers": layers}
    if isinstance(kinds := config.get("layer_types"), list) and len(kinds) == layers:
        return {"window": window, "windowed_layers": kinds.count("sliding_attention")}
    if model_type in _FULL_ATTENTION_EVERY:
        return {"window": window, "windowed_layers": layers - layers // _FULL_ATTENTION_EVERY[model_type]}
    if (every := _first(config, ("global_attn_every_n_layers",))) and model_type == "modernbert":
        return {"window": window, "windowed_layers": layers - ceil(layers / every)}  # the first is full
    return None


def _slides(model_type: str, config: Mapping[str, Any]) -> bool:
    """Whether some layers have a window even if the configuration does not say how wide it is."""
    if isinstance(kinds := config.get("layer_types"), list):
        return "sliding_attention" in kinds
    is_file = "model_type" in config  # a capture record holds neither this nor entries that are null
    unstated = model_type == "mistral" and is_file and "sliding_window" not in config
    return unstated or model_type in _ALWAYS_WINDOWED
