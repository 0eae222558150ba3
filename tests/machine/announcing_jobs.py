"""For each rule about what libraries announce a record with such a message."""

from collections.abc import Mapping
from typing import Any

from diagnose.diagnosis import Severity

Record = Mapping[str, Any]


def announced(message: str, what: str | None = None, *packages: str) -> Record:
    """The record of a job in which a library said so."""
    row = {"message": message, "what": what, "packages": list(packages), "file": "a/b.py", "line": 3}
    return {"announced": [row]}


SILENT: Record = {"announced": []}
FALLBACK = announced("reference-implementation", "chunk_gated_delta_rule", "flash-linear-attention")
CASES: Mapping[str, tuple[Severity, Record, str, str]] = {
    "reference-kernels": (
        "warning",
        FALLBACK,
        "chunk_gated_delta_rule runs its reference PyTorch implementation",
        "Install flash-linear-attention",
    ),
    "announced-slow-compute": (
        "info",
        announced("tf32-not-enabled"),
        "TensorFloat32 tensor cores are available but not enabled",
        "Set torch.set_float32_matmul_precision('high')",
    ),
    "announced-slow-input": (
        "info",
        announced("more-workers-than-cores", "2"),
        "more workers than torch suggests on this system, which is 2",
        "Lower the worker number",
    ),
}
