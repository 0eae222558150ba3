"""The model's part of the capture facts: sizes, dtypes, attention, wrappers and the optimizer.

Read from what torch and transformers hold; no method or property of the job's own classes is called.
"""

from __future__ import annotations

import gc
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..guard import quietly
from ..introspection import (
    attributes,
    dtype,
    has_gradient,
    is_a,
    modules,
    own_attribute,
    parameters,
    setting,
    size,
    trains,
    untouched,
)

DIMENSIONS = [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "sliding_window",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "n_shared_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "decoder_sparse_step",
    "max_window_layers",
    "type_vocab_size",
    "attention_bias",
    "mlp_bias",
    "enable_bias",
    "tie_word_embeddings",
    "ffn_dim",
    "word_embed_proj_dim",
    "d_model",
    "d_ff",
    "d_kv",
    "num_layers",
    "num_heads",
    "n_embd",
    "n_layer",
    "n_head",
    "n_inner",
    "n_positions",
    "encoder_layers",
    "decoder_layers",
    "image_size",
    "patch_size",
    "q_lora_rank",
    "kv_lora_rank",
    "use_cache",
    "dim",
    "hidden_dim",
    "n_layers",
    "n_heads",
    "local_attention",
    "use_qk_norm",
    "first_k_dense_replace",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "use_sliding_window",
    "is_decoder",
    "is_encoder_decoder",
    "add_cross_attention",
    "num_decoder_layers",
    "linear_num_value_heads",
    "linear_num_heads",
    "mamba_d_state",
    "state_size",
    "ssm_state_size",
    "index_topk",
    "attention_chunk_size",
    "embedding_size",
]
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,39}\Z")
_WRAPPED = ("_orig_mod", "module")


def model_facts(model: Any) -> dict[str, object] | None:
    """Sizes and settings of the model without its wrappers; None without a model."""
    if model is None:
        return None
    inner = unwrapped(model)
    config = own_attribute(inner, "config")
    weights = parameters(inner)
    with untouched():
        return {
            "class": type(inner).__name__,
            "model_type": _word(setting(config, "model_type")),
            "parameters": sum(map(size, weights)),
            "trainable": sum(size(p) for p in weights if trains(p)),
            "embedding_parameters": sum(map(size, _embeddings(inner))),
            "dtypes": dict(_dtypes(weights)),
            "attn_implementation": _word(setting(config, "_attn_implementation")),
            "gradient_checkpointing": any(own_attribute(m, "gradient_checkpointing") is True for m in modules(inner)),
            "config": _dimensions(config),
            "text_config": _text_config(config),
        }


def optimizer_facts(optimizer: Any) -> dict[str, object] | None:
    """The optimizer's class and the implementation it was asked for; None without one."""
    if optimizer is None:
        return None
    groups = own_attribute(optimizer, "param_groups")
    weights = optimized(optimizer)
    with untouched():
        return {
            "class": type(optimizer).__name__,
            "fused": groups[0].get("fused"),
            "foreach": groups[0].get("foreach"),
            "capturable": groups[0].get("capturable"),
            "parameters": sum(map(size, weights)),
            "dtypes": dict(_dtypes(weights)),
            "groups": len(groups),
        }


def wrapped_facts(model: Any) -> dict[str, object]:
    """Whether the model is compiled, and the settings of the DDP or FSDP wrapper around it (None without one)."""
    chain = list(_outer_modules(model))
    ddp = next((m for m in chain if type(m).__name__ == "DistributedDataParallel"), None)
    fsdp = next((m for m in chain if "FSDP" in type(m).__name__ or "FullySharded" in type(m).__name__), None)
    inner = unwrapped(model) if model is not None else None
    compiled = any(type(m).__name__ == "OptimizedModule" for m in chain)
    return {
        "compiled": compiled or own_attribute(inner, "_compiled_call_impl") is not None,
        "ddp": None if ddp is None else _ddp(ddp),
        "fsdp": None if fsdp is None else _fsdp(fsdp),
    }


def unwrapped(model: Any) -> Any:
    """The model inside torch.compile, DDP and FSDP wrappers."""
    return list(_chain(model))[-1]


def module_of(optimizer: Any) -> Any:
    """The module that holds most of the optimizer's parameters among the live objects; None when there is none."""
    if optimizer is None:
        return None
    wanted = {id(p) for p in optimized(optimizer)}
    best, best_score = None, (0, 0)
    for module in live_modules():
        stepped = [id(p) in wanted for p in parameters(module)]
        score = (sum(stepped), int("config" in attributes(module)))
        if score > best_score:
            best, best_score = module, score
    return best


def live_modules() -> Iterator[Any]:
    """The modules of the process, each once."""
    return _alive(sys.modules["torch"].nn.Module)


def unstepped_gradients(optimizer: Any) -> int | None:
    """Elements of the gradients that modules of the process hold and none of its optimizers steps; None if the
    optimizer steps tensors of no module, such as copies of the weights in fp32.
    """
    stepped = {id(p) for each in _alive(sys.modules["torch"].optim.Optimizer) for p in optimized(each)}
    with untouched():
        held = {id(p): p for module in live_modules() for p in parameters(module, recurse=False)}
        if not {id(p) for p in optimized(optimizer)} <= held.keys():
            return None
        return sum(size(p) for key, p in held.items() if key not in stepped and trains(p) and has_gradient(p))


def _alive(kind: type) -> Iterator[Any]:
    return (thing for thing in gc.get_objects() if issubclass(type(thing), kind))


def optimized(optimizer: Any) -> list[Any]:
    """The parameters that the optimizer steps."""
    groups = own_attribute(optimizer, "param_groups")
    return [p for group in groups if type(group) is dict for p in group["params"]] if type(groups) is list else []


def _outer_modules(model: Any) -> Iterator[Any]:
    """The model, what is inside its wrappers, and the wrappers around it that are alive."""
    if model is None:
        return
    inside = list(_chain(model))
    yield from inside
    known = {id(module) for module in inside}
    for module in live_modules():
        inner: Any = None if id(module) in known else own_attribute(module, "_modules")
        if is_a(inner, dict) and any(id(dict.get(inner, name)) in known for name in _WRAPPED):
            yield module


def _chain(model: Any) -> Iterator[Any]:
    while model is not None:
        yield model
        inside = own_attribute(model, "_modules") or {}
        wrapper = type(model).__name__ in ("OptimizedModule", "DistributedDataParallel", "FullyShardedDataParallel")
        model = next((inside[name] for name in _WRAPPED if name in inside), None) if wrapper else None


def _ddp(wrapper: Any) -> dict[str, object]:
    bucket = own_attribute(wrapper, "bucket_bytes_cap")
    searches = own_attribute(wrapper, "find_unused_parameters")
    return {
        "find_unused_parameters": searches,
        "gradient_as_bucket_view": own_attribute(wrapper, "gradient_as_bucket_view"),
        "static_graph": own_attribute(wrapper, "static_graph"),
        "broadcast_buffers": _first_flag(wrapper, "forward_sync_buffers", "broadcast_buffers"),
        "bucket_cap_mb": None if bucket is None else bucket / 2**20,
        "unused_parameter_bytes": _unused_bytes(own_attribute(wrapper, "logger")) if searches else None,
    }


def _first_flag(thing: object, *names: str) -> bool | None:
    return next((value for name in names if type(value := own_attribute(thing, name)) is bool), None)


def _unused_bytes(logger: Any) -> int | None:
    """Bytes of the parameters without a gradient in the last step that DDP looked at (of the first ten, then of each
    hundredth); None if it looked at none.
    """
    counts: Any = quietly(lambda: logger._get_ddp_logging_data().ints_map)
    size = counts.get("unused_parameter_size") if type(counts) is dict else None
    return size if type(size) is int else None


def _fsdp(wrapper: Any) -> dict[str, object]:
    strategy = getattr(own_attribute(wrapper, "sharding_strategy"), "name", None)
    return {
        "class": type(wrapper).__name__,
        "sharding_strategy": _word(strategy),
        "forward_prefetch": _prefetches_forward(wrapper),
    }


def _prefetches_forward(wrapper: Any) -> bool | None:
    """Whether any unit gathers the next one's parameters ahead; None if neither kind of FSDP shows it."""
    stated = own_attribute(wrapper, "forward_prefetch")
    if type(stated) is bool:
        return stated
    ahead = [units for module in modules(wrapper) if (units := _ahead_of(module)) is not None]
    return any(map(bool, ahead)) if ahead else None


def _ahead_of(module: Any) -> list[Any] | None:
    """The units that torch's fully_shard gathers ahead, from the state in a module's hooks; None without it."""
    state_of = getattr(sys.modules.get("torch.distributed._composable_state"), "_get_module_state", None)
    state = None if state_of is None else state_of(module)
    return own_attribute(state, "_states_to_forward_prefetch") if state is not None else None


def _embeddings(model: Any) -> list[Any]:
    torch: Any = sys.modules["torch"]
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return [p for module in modules(model) if is_a(module, *kinds) for p in parameters(module, False)]


def _dimensions(config: Any) -> dict[str, object]:
    return {name: value for name in DIMENSIONS if is_a(value := setting(config, name), int)}


def _text_config(config: Any) -> dict[str, object] | None:
    text = own_attribute(config, "text_config")
    return None if text is None else _dimensions(text)


def _dtypes(weights: list[Any]) -> Counter[str]:
    """Number of parameters (elements) by dtype."""
    counted: Counter[str] = Counter()
    for parameter in weights:
        counted[dtype(parameter)] += size(parameter)
    return counted


def _word(value: Any) -> str | None:
    return value if is_a(value, str) and _WORD.match(value) else None
