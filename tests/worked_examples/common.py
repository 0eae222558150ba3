"""Types, printed units and constants that the rows of worked examples share."""

from collections.abc import Callable, Mapping
from typing import Any

from diagnose.formulas.model import ModelShape
from diagnose.formulas.named_models import NAMED_MODELS

Inputs = Mapping[str, Any]
Value = float | int | bool | tuple[float | bool, ...] | dict[str, Any]
Check = Callable[[Inputs], Value]

PERCENT = 100
MS, US = 1e3, 1e6
GIGA, TERA, GIB = 1e9, 1e12, 1 << 30

LLAMA, OPT = "Llama-3.2-1B", "OPT-1.3B"
TOKENS = 1024
PEAK_FLOPS = 989e12  # H100 SXM, dense bf16
MEASURED_HBM_BYTES_PER_S = 1.45e12  # the ladder's H100 64 GB at equal reads and writes


def model(x: Inputs) -> ModelShape:
    """The model that a row names, Llama-3.2-1B if it names none."""
    return NAMED_MODELS[x.get("model", LLAMA)]


def tokens(x: Inputs) -> int:
    """The row's sequence length."""
    return x.get("T", TOKENS)


def bandwidth(x: Inputs) -> float:
    """The row's memory bandwidth in bytes/s."""
    return x.get("bw", MEASURED_HBM_BYTES_PER_S)
