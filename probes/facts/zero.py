"""How DeepSpeed divides the training state among the ranks, from the configuration that its engine holds."""

from __future__ import annotations

from typing import Any

from ..introspection import own_attribute, plain

_AS_NAMED = ("stage", "reduce_bucket_size", "allgather_bucket_size", "overlap_comm", "zero_hpz_partition_size")
_OFFLOADED = ("offload_optimizer", "offload_param")


def zero_facts(engine: Any) -> dict[str, object] | None:
    """The keys of `zero_optimization` as DeepSpeed resolved them; None without an engine or in an unknown form."""
    zero = own_attribute(own_attribute(engine, "_config"), "zero_config")
    if zero is None:
        return None
    return {
        **{name: plain(own_attribute(zero, name)) for name in _AS_NAMED},
        **{name: plain(own_attribute(own_attribute(zero, name), "device")) or "none" for name in _OFFLOADED},
        "prefetch_bucket_size": plain(own_attribute(zero, "prefetch_bucket_size")),
    }
