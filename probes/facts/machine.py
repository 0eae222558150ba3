"""The machine's part of the capture facts: versions, device, memory and the environment variables that matter."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from ..guard import quietly
from ..machine import nvml
from ..redaction import without_secrets
from ..threaded import run_in_thread
from .environment import ENVIRONMENT

PACKAGES = (
    "torch",
    "transformers",
    "accelerate",
    "liger-kernel",
    "triton",
    "flash-attn",
    "flash-attn-3",
    "kernels",
    "deepspeed",
    "nvtx",
)
_SETTING = re.compile(r"[A-Za-z0-9_.,:=^+\-\[\]]{1,80}\Z")


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The listed variables that are set to something that looks like a setting."""
    return {name: without_secrets(variables[name]) for name in ENVIRONMENT if _SETTING.match(variables.get(name, ""))}


def versions() -> dict[str, object]:
    """Versions of what takes part in a step; null if it is not installed."""
    torch: Any = sys.modules["torch"]
    packages: dict[str, object] = {name.replace("-", "_"): _version(name) for name in PACKAGES}
    return {
        **packages,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "driver": quietly(nvml.driver_version),
        "driver_cuda": quietly(nvml.driver_cuda),
        "nccl": quietly(lambda: ".".join(map(str, torch.cuda.nccl.version()))) if torch.version.cuda else None,
        "liger_model_types": quietly(liger_model_types),
    }


def liger_model_types() -> list[str] | None:
    """The model types that the installed Liger has kernels for; None without Liger. Never imports it."""
    module: Any = sys.modules.get("liger_kernel.transformers.monkey_patch")
    if module is not None:
        return sorted(map(str, module.MODEL_TYPE_TO_APPLY_LIGER_FN))
    return _liger_model_types_in_source()


def _liger_model_types_in_source() -> list[str] | None:
    """The keys of Liger's table, read from its file: importing it would import Triton into the job."""
    package = importlib.util.find_spec("liger_kernel")
    for folder in (package.submodule_search_locations or []) if package is not None else []:
        with open(f"{folder}/transformers/monkey_patch.py", encoding="utf-8") as file:
            table = re.search(r"^MODEL_TYPE_TO_APPLY_LIGER_FN = \{(.*?)^\}", file.read(), re.M | re.S)
        return sorted(set(re.findall(r'^\s*"([a-z0-9_]+)":', table[1], re.M))) if table else None
    return None


def device() -> dict[str, object] | None:
    """The accelerator this process computes on; None on a CPU. Clocks in MHz, power in W, memory in bytes."""
    torch: Any = sys.modules["torch"]
    if not torch.cuda.is_initialized():
        return None
    index = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(index)
    return {
        "name": str(properties.name),
        "index": int(index),
        "pci_address": nvml.address_of(properties),
        "total_memory_bytes": int(properties.total_memory),
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": int(properties.multi_processor_count),
        "memory_clock_mhz": _mhz(properties, "memory_clock_rate"),
        "clock_mhz": _mhz(properties, "clock_rate"),
        "memory_bus_bits": getattr(properties, "memory_bus_width", None),
        "l2_cache_bytes": getattr(properties, "L2_cache_size", None),
        "nvml": quietly(lambda: run_in_thread(lambda: nvml.device_facts(str(getattr(properties, "uuid", ""))))),
    }


def memory() -> dict[str, object] | None:
    """Device memory in bytes: now, and at most so far; None on a CPU."""
    torch: Any = sys.modules["torch"]
    if not torch.cuda.is_initialized():
        return None
    free_and_total: Any = quietly(torch.cuda.mem_get_info) or (None, None)
    return {
        "allocated_bytes": int(torch.cuda.memory_allocated()),
        "reserved_bytes": int(torch.cuda.memory_reserved()),
        "max_allocated_bytes": int(torch.cuda.max_memory_allocated()),
        "max_reserved_bytes": int(torch.cuda.max_memory_reserved()),
        "free_bytes": free_and_total[0],
        "total_bytes": free_and_total[1],
    }


def _mhz(properties: Any, name: str) -> float | None:
    kilohertz = getattr(properties, name, None)
    return None if kilohertz is None else kilohertz / 1000


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
