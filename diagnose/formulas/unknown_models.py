"""Reasons why the parameters and FLOPs of a model are not known from its configuration."""

from collections.abc import Mapping
from typing import Any

from diagnose.formulas.model_families import MODEL_TYPES, shape_fields, unusual_entries

_PARTS: Mapping[str, tuple[str, ...]] = {
    "towers for images or sound": ("vision_config", "audio_config", "text_config", "thinker_config"),
    "an encoder and a decoder": ("is_encoder_decoder", "encoder_layers", "num_decoder_layers"),
    "linear-attention layers": ("linear_num_value_heads", "linear_num_heads", "linear_attn_alpha_factor"),
    "state-space or recurrent layers": (
        *("mamba_d_state", "state_size", "ssm_state_size", "lru_width", "attention_hidden_size", "conv_L_cache"),
    ),
    "attention to chosen tokens": ("index_topk",),
    "attention in chunks": ("attention_chunk_size",),
    "convolutions over sound": ("num_conv_pos_embeddings", "num_mel_bins"),
    "image patches in place of tokens": ("image_size", "patch_size", "patch_sizes"),
    "an embedding of a width of its own": ("embedding_size",),
    "embeddings of each layer": ("hidden_size_per_layer_input",),
    "products with relative positions": ("relative_attention", "pos_att_type"),
    "latent attention in another layout": ("kv_lora_rank",),
    "shared experts in another layout": ("shared_intermediate_size",),
}
"""Parts that no formula counts, each with the configuration entries of which one tells that a model has it."""


def why_unknown(model_type: str, config: Mapping[str, Any], class_name: str | None = None) -> str:
    """A clause that names the type and what is not counted of it.

    Args:
        model_type: as the configuration names it; "" if it names none.
        config: the entries of the configuration, as a file or a capture record holds them.
        class_name: the model's class, if it is known.
    """
    if not model_type:
        made = config.get("_class_name")
        of = f"a {made} of diffusers" if isinstance(made, str) else "without a model_type"
        return f"the configuration is {of}, and formulas count models of transformers alone"
    if model_type in MODEL_TYPES:
        irregular = _why_irregular(model_type, config, class_name)
        return f"the configuration does not tell the sizes of this {model_type} model for certain: {irregular}"
    parts = [part for part, entries in _PARTS.items() if any(config.get(entry) for entry in entries)]
    if not parts:
        return f"no formula counts the parts of a model of type {model_type}"
    return f"a model of type {model_type} has {parts[0]}, which no formula counts"


def _why_irregular(model_type: str, config: Mapping[str, Any], class_name: str | None) -> str:
    if unusual := unusual_entries(model_type, config):
        return f"{unusual[0]} asks for an unusual variant"
    if class_name is not None and shape_fields(model_type, config) is not None:
        return f"{class_name} is no language model of transformers"
    return "an entry that decides a size is missing or damaged"
