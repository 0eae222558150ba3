"""What the machine is: driver, card, libraries, compilers, tools; and each reading of NVML, with what it costs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sysconfig
import time
from pathlib import Path
from typing import Any

from kit import ran, tell, tried

PACKAGES = (
    "torch", "triton", "transformers", "accelerate", "numpy", "liger-kernel", "nvtx", "nvidia-cuda-cupti",
    "nvidia-nccl-cu13", "flash-attn", "transformer-engine", "diagnose-training",
)  # fmt: skip
TOOLS = ("gcc", "cc", "clang", "nvcc", "ncu", "nsys", "py-spy", "nvidia-smi")
READINGS = ("gauges", "links", "traffic", "errors", "moved", "limits", "reasons")
FUNCTIONS = (
    "nvmlInit_v2", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMemoryBusWidth", "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetRemappedRows", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetFieldValues", "nvmlDeviceGetNvLinkState",
)  # fmt: skip


def main() -> None:
    """Tell the host, then torch, then NVML: each may fail by itself."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "glibc": platform.libc_ver(),
        "cpus": os.cpu_count(),
        "packages": {name: tried(importlib.metadata.version, name) for name in PACKAGES},
        "tools": [name for name in TOOLS if shutil.which(name)],
        "python_headers": Path(sysconfig.get_path("include"), "Python.h").is_file(),
        "profiling": tried(profiling),
        "smi": ran(["nvidia-smi", "-q", "-d", "CLOCK,POWER,PERFORMANCE,TEMPERATURE,ECC"], most=9000)["out"],
    }
    for name, told in (("torch", torch_told), ("nvml", nvml_told)):
        tell(found)
        found[name] = tried(told)
    tell(found)


def profiling() -> list[str]:
    """Who may profile, as the driver has it."""
    text = Path("/proc/driver/nvidia/params").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if "Profiling" in line]


def torch_told() -> dict[str, Any]:
    """Versions, the card's properties, and what the profiler takes."""
    import torch

    told: dict[str, Any] = {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "devices": torch.cuda.device_count(),
    }
    told["initialised_by_counting"] = torch.cuda.is_initialized()
    told["activities"] = str(torch.profiler.supported_activities())
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        names = [name for name in dir(properties) if not name.startswith("_") and "pci" not in name and name != "uuid"]
        told["properties"] = {name: str(getattr(properties, name)) for name in names}
        told["arch"] = torch.cuda.get_arch_list()
    return told


def nvml_told() -> dict[str, Any]:
    """Each reading of the product, by itself, with its milliseconds, idle and beside work."""
    import torch

    from diagnose.probes.machine import nvml
    from diagnose.probes.machine.nvml_readings import GpuReadings

    torch.cuda.init()
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    gpu, a = GpuReadings(uuid), torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    told: dict[str, Any] = {"driver": tried(nvml.driver_version), "device_facts": tried(nvml.device_facts, uuid)}
    for state in ("idle", "busy"):
        if state == "busy":
            for _ in range(600):  # some 0.9 s of products, launched and not waited for
                a @ a
        told |= {f"{state}_{name}": timed(gpu, name) for name in READINGS}
    torch.cuda.synchronize()
    told["functions_missing"] = [name for name in FUNCTIONS if getattr(gpu._library, name, None) is None]
    return told


def timed(gpu: Any, name: str) -> dict[str, Any]:
    """One reading, and the milliseconds that it took."""
    since = time.perf_counter()
    value = tried(getattr(gpu, name))
    return {"value": value, "ms": round(1e3 * (time.perf_counter() - since), 3)}


if __name__ == "__main__":
    main()
