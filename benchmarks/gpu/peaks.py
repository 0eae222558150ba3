"""What the card reaches: products by size and type, memory, attention, copies, launches; beside the product's figures.

Median of repeats by events behind a warm-up, on random data, inputs taken in turns so that none stays in the cache.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from importlib.resources import files
from typing import Any

import torch
import torch.nn.functional as F
from kit import TINY, tell, tried

from diagnose.probes.peaks import host_copies, place, product, seconds

PLACE = place()
SQUARE = ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 8192, 8192))
OTHERS = (
    (1024, 1024, 1024), (2048, 2048, 2048), (7168, 2048, 2048), (7168, 8192, 2048), (7168, 2048, 8192),
    (7168, 128256, 2048), (14336, 128256, 2048), (8192, 8191, 8192), (128, 4096, 4096),
)  # fmt: skip
SHAPES = ((64, 64, 64), (128, 128, 128)) if TINY else (*OTHERS, *SQUARE)
FEW = SHAPES if TINY else SQUARE[:2]
BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
RATES = (
    "matrix_share", "attention_share", "elementwise_bytes", "logits_bytes", "score_bytes", "optimizer_passes", "step_s",
    "host_layer_s", "fp8_share",
)  # fmt: skip
FOUND: dict[str, Any] = {}


def main() -> None:
    """Each kind, told as soon as it is known."""
    FOUND["device"] = torch.cuda.get_device_name() if PLACE == "cuda" else "CPU"
    products()
    FOUND["memory, bytes/s"] = traffic()
    tell(FOUND)
    if PLACE == "cuda":
        FOUND["attention, FLOP/s of half of the scores"] = attentions()
        tell(FOUND)
        FOUND["host copies, bytes/s"] = host_copies()
        FOUND["launch, us"] = launches()
        FOUND["AdamW in fp32, bytes/s of 28 each parameter"] = optimizers()
    FOUND["constants"] = tried(constants)
    tell(FOUND)


def products() -> None:
    """Products of each type."""
    kinds = {"bf16": (torch.bfloat16, SHAPES, False), "fp32": (torch.float32, FEW, False)}
    if PLACE == "cuda":
        kinds |= {"fp16": (torch.float16, FEW, False), "tf32": (torch.float32, FEW, True)}
    for kind, (dtype, shapes, tf32) in kinds.items():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        FOUND[f"products {kind}, FLOP/s"] = {str(shape): tried(product, *shape, dtype) for shape in shapes}
        tell(FOUND)
    if PLACE == "cuda":
        FOUND["products fp8, FLOP/s"] = {str(shape): tried(fp8, *shape) for shape in SQUARE}
        tell(FOUND)


def fp8(m: int, n: int, k: int) -> float:
    """FLOP/s of a product in fp8, scaled by tensor."""
    one = torch.tensor(1.0, device=PLACE)
    a = torch.randn(m, k, device=PLACE).to(torch.float8_e4m3fn)
    b = torch.randn(n, k, device=PLACE).to(torch.float8_e4m3fn).t()
    return 2 * m * n * k / seconds([lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)])


def traffic() -> dict[str, float]:
    """Bytes a second of kernels that memory limits."""
    size = 1 << (28 if PLACE == "cuda" else 18)
    x, y, z = (torch.randn(size, device=PLACE).to(torch.bfloat16) for _ in range(3))
    rows = x.view(-1, 1024), x.view(-1, 2048)
    calls: dict[str, tuple[int, Callable[[], Any]]] = {
        "copy": (4, lambda: y.copy_(x)),
        "add of two": (6, lambda: torch.add(x, y, out=z)),
        "scale in place": (4, lambda: x.mul_(1.0)),
        "sum": (2, lambda: x.sum()),
        "to fp32 and back": (12, lambda: y.copy_(x.float())),
        "zero": (2, lambda: z.zero_()),
        "softmax of rows": (4, lambda: torch.softmax(rows[0], -1)),
        "gelu": (4, lambda: F.gelu(x)),
        "layer norm": (4, lambda: F.layer_norm(rows[1], (2048,))),
    }
    return {name: each * size / seconds([call]) for name, (each, call) in calls.items()}


def attentions() -> dict[str, Any]:
    """Each backend, forward and both ways."""
    cases = [(name, tokens, both) for name in BACKENDS for tokens in (1024, 4096) for both in (False, True)]
    few = [case for case in cases if case[:2] != ("MATH", 4096)]
    return {f"{name} {t} {'both' if both else 'forward'}": tried(attention, name, t, both) for name, t, both in few}


def attention(backend: str, tokens: int, backward: bool) -> float:
    """FLOP/s of causal attention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    b, h, d = (1, 2, 16) if TINY else (7, 32, 64)
    how = {"device": PLACE, "dtype": torch.bfloat16, "requires_grad": backward}
    q, k, v = (torch.randn(b, h, tokens, d, **how) for _ in range(3))

    def call() -> None:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if backward:
            y.backward(y)

    with sdpa_kernel(getattr(SDPBackend, backend)):
        taken = seconds([call])
    return 4 * b * h * tokens * tokens * d * (3.5 if backward else 1) / 2 / taken


def launches(count: int = 5000) -> dict[str, float]:
    """Microseconds of a small kernel, for the host and for the device."""
    small, since = torch.zeros(8, device=PLACE), time.perf_counter()
    for _ in range(count):
        small.add_(1)
    launched = time.perf_counter()
    torch.cuda.synchronize()
    ended = time.perf_counter()
    return {"host, of an add": 1e6 * (launched - since) / count, "device, of an add": 1e6 * (ended - since) / count}


def optimizers() -> dict[str, float]:
    """Bytes a second of AdamW's forms."""
    parameters = [torch.randn(1 << 22, device=PLACE, requires_grad=True) for _ in range(64)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    forms = {"fused": {"fused": True}, "foreach": {"foreach": True}, "single": {"foreach": False}}
    bytes_each_step = 28 * sum(parameter.numel() for parameter in parameters)
    return {
        name: bytes_each_step / seconds([torch.optim.AdamW(parameters, lr=1e-6, **words).step], 6)
        for name, words in forms.items()
    }


def constants() -> dict[str, Any]:
    """The product's own figures that these stand beside: the rates of `fit`, and the card's row."""
    stacks = tomllib.loads(files("diagnose.data").joinpath("training_stacks.toml").read_text(encoding="utf-8"))
    kept = {rate: stacks["transformers"].get(rate) for rate in RATES}
    from diagnose.hardware.table import table

    rows = [row for row in table() if FOUND["device"] in row.names]
    return kept | {"card": [asdict(row) if is_dataclass(row) else str(row) for row in rows]}


if __name__ == "__main__":
    main()
