"""The model's part of the capture facts: sizes, dtypes, attention, wrappers and the optimizer."""

from __future__ import annotations

import gc
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .guard import quietly

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
]
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,39}\Z")
_WRAPPED = ("_orig_mod", "module")


def model_facts(model: Any) -> dict[str, object] | None:
    """Sizes and settings of the model without its wrappers; None without a model."""
    if model is None:
        return None
    inner = unwrapped(model)
    config = getattr(inner, "config", None)
    parameters = list(inner.parameters())
    embeddings = _embeddings(inner)
    return {
        "class": type(inner).__name__,
        "model_type": _word(getattr(config, "model_type", None)),
        "parameters": sum(_size(p) for p in parameters),
        "trainable": sum(_size(p) for p in parameters if p.requires_grad),
        "embedding_parameters": sum(_size(p) for p in embeddings),
        "dtypes": dict(_dtypes(parameters)),
        "attn_implementation": _word(getattr(config, "_attn_implementation", None)),
        "gradient_checkpointing": any(vars(module).get("gradient_checkpointing") is True for module in inner.modules()),
        "config": {name: value for name in DIMENSIONS if isinstance(value := getattr(config, name, None), int)},
        "text_config": _text_config(config),
    }


def optimizer_facts(optimizer: Any) -> dict[str, object] | None:
    """The optimizer's class and the implementation it was asked for; None without one."""
    if optimizer is None:
        return None
    group = optimizer.param_groups[0]
    parameters = [p for each in optimizer.param_groups for p in each["params"]]
    return {
        "class": type(optimizer).__name__,
        "fused": group.get("fused"),
        "foreach": group.get("foreach"),
        "capturable": group.get("capturable"),
        "parameters": sum(_size(p) for p in parameters),
        "dtypes": dict(_dtypes(parameters)),
        "groups": len(optimizer.param_groups),
    }


def wrapped_facts(model: Any) -> dict[str, object]:
    """Whether the model is compiled, and the settings of the DDP or FSDP wrapper around it (None without one)."""
    chain = list(_outer_modules(model))
    ddp = next((m for m in chain if type(m).__name__ == "DistributedDataParallel"), None)
    fsdp = next((m for m in chain if "FSDP" in type(m).__name__ or "FullySharded" in type(m).__name__), None)
    inner = unwrapped(model) if model is not None else None
    compiled = any(type(m).__name__ == "OptimizedModule" for m in chain)
    return {
        "compiled": compiled or getattr(inner, "_compiled_call_impl", None) is not None,
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
    torch: Any = sys.modules["torch"]
    wanted = {id(p) for group in optimizer.param_groups for p in group["params"]}
    best, best_score = None, (0, 0)
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.nn.Module):
            found = [id(p) in wanted for p in thing.parameters()]
            score = (sum(found), int(hasattr(thing, "config")))
            if score > best_score:
                best, best_score = thing, score
    return best


def _outer_modules(model: Any) -> Iterator[Any]:
    """The model, what is inside its wrappers, and the wrappers around it that are alive."""
    if model is None:
        return
    inside = list(_chain(model))
    yield from inside
    torch: Any = sys.modules["torch"]
    known = {id(module) for module in inside}
    for thing in gc.get_objects():
        if not issubclass(type(thing), torch.nn.Module) or id(thing) in known:
            continue
        if any(id(vars(thing).get("_modules", {}).get(name)) in known for name in _WRAPPED):
            yield thing


def _chain(model: Any) -> Iterator[Any]:
    while model is not None:
        yield model
        inside = vars(model).get("_modules", {})
        wrapper = type(model).__name__ in ("OptimizedModule", "DistributedDataParallel", "FullyShardedDataParallel")
        model = next((inside[name] for name in _WRAPPED if name in inside), None) if wrapper else None


def _ddp(wrapper: Any) -> dict[str, object]:
    bucket = getattr(wrapper, "bucket_bytes_cap", None)
    return {
        "find_unused_parameters": getattr(wrapper, "find_unused_parameters", None),
        "gradient_as_bucket_view": getattr(wrapper, "gradient_as_bucket_view", None),
        "static_graph": getattr(wrapper, "static_graph", None),
        "broadcast_buffers": getattr(wrapper, "broadcast_buffers", None),
        "bucket_cap_mb": None if bucket is None else bucket / 2**20,
    }


def _fsdp(wrapper: Any) -> dict[str, object]:
    strategy = getattr(getattr(wrapper, "sharding_strategy", None), "name", None)
    return {
        "class": type(wrapper).__name__,
        "sharding_strategy": _word(strategy),
        "forward_prefetch": quietly(lambda: _prefetches_forward(wrapper)),
    }


def _prefetches_forward(wrapper: Any) -> bool | None:
    """Whether any unit gathers the next one's parameters ahead; None where neither kind of FSDP says."""
    own = getattr(wrapper, "forward_prefetch", None)
    if isinstance(own, bool):
        return own
    states = [m._get_fsdp_state() for m in wrapper.modules() if hasattr(m, "_get_fsdp_state")]
    return any(bool(state._states_to_forward_prefetch) for state in states) if states else None


def _embeddings(model: Any) -> list[Any]:
    torch: Any = sys.modules["torch"]
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return [p for module in model.modules() if isinstance(module, kinds) for p in module.parameters(recurse=False)]


def _text_config(config: Any) -> dict[str, object] | None:
    text = getattr(config, "text_config", None)
    if text is None:
        return None
    return {name: value for name in DIMENSIONS if isinstance(value := getattr(text, name, None), int)}


def _dtypes(parameters: list[Any]) -> Counter[str]:
    """Parameters, in elements, by dtype."""
    counted: Counter[str] = Counter()
    for parameter in parameters:
        counted[str(parameter.dtype).removeprefix("torch.")] += _size(parameter)
    return counted


def _size(parameter: Any) -> int:
    return int(parameter.numel())


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and _WORD.match(value) else None
