"""Settings of torch in this process that change how fast it computes, as they are when the window ends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from ..guard import quietly
from ..introspection import unseen

_PRECISION = {"ieee": "highest", "none": "highest", "tf32": "high"}  # torch's newer words for the products on a GPU
_Setting = Callable[[Any], object]
_SETTINGS: dict[str, _Setting] = {
    "detects_anomalies": lambda torch: bool(torch.is_anomaly_enabled()),
    "deterministic": lambda torch: bool(torch.are_deterministic_algorithms_enabled()),
    "cudnn_deterministic": lambda torch: bool(torch.backends.cudnn.deterministic),
    "cudnn_benchmark": lambda torch: bool(torch.backends.cudnn.benchmark),
    "float32_matmul_precision": lambda torch: float32_matmul_precision(torch),
    "threads": lambda torch: int(torch.get_num_threads()),
    "distributed_debug": lambda torch: str(torch.distributed.get_debug_level().name),
    "debug_build": lambda torch: bool(torch.version.debug),
    "gpu_code": lambda torch: [str(name) for name in torch.cuda.get_arch_list()],
    "cpu_multiplies_fp16": lambda torch: bool(torch.ops.mkldnn._is_mkldnn_fp16_supported()),
    "cpu_multiplies_bf16": lambda torch: bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
    "cpu_vectors": lambda torch: str(torch.backends.cpu.get_cpu_capability()),
    "cpu_has_avx2": lambda torch: bool(torch.cpu._is_avx2_supported()),
}


def float32_matmul_precision(torch: Any) -> str:
    """The precision of float32 products on a GPU, in the words of `torch.set_float32_matmul_precision`.

    From torch 2.9 on it can also be set by `torch.backends.cuda.matmul.fp32_precision` (as transformers' `tf32` does),
    after which torch refuses to return it in these words.
    """
    told = quietly(torch.get_float32_matmul_precision)
    return str(told) if told else _PRECISION[torch.backends.cuda.matmul.fp32_precision]


def torch_settings() -> dict[str, object]:
    """Each setting by its name; null if this torch does not have it."""
    torch: Any = sys.modules["torch"]
    with unseen():
        return {name: quietly(partial(read, torch)) for name, read in _SETTINGS.items()}
