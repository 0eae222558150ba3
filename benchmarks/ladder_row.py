"""One process of the ladder: trains one row, or measures the device's ceilings, and writes what it saw as JSON.

    python ladder_row.py SPEC.json RESULT.json

The specification has "task": "ceilings" or "row"; `ladder.py` writes it. Times are of unprofiled steps.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

GEMM_SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 8192, 8192), (8192, 28672, 8192))
TINY_SHAPES = ((256, 256, 256), (512, 512, 512))
_OUT_OF_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
_REPEATS = 20


def ceilings(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Best bf16 product in FLOP/s over a few shapes; device copy in bytes/s, read and written bytes both counted."""
    place = "cuda" if torch.cuda.is_available() else "cpu"
    if place == "cpu" and not spec["tiny"]:
        return {"device": None}
    products = {str(shape): _product(*shape, place) for shape in (TINY_SHAPES if spec["tiny"] else GEMM_SHAPES)}
    elements = (1 << 20) if spec["tiny"] else torch.cuda.get_device_properties(0).total_memory // 32
    return {
        "device": _device_facts(place),
        "versions": _versions(),
        "bf16_gemm_flops": max(products.values()),
        "bf16_gemm_flops_by_shape": products,
        "copy_bytes_per_s": _copy(elements, place),
    }


def _product(m: int, n: int, k: int, place: str) -> float:
    a = torch.randn(m, k, device=place).bfloat16()
    b = torch.randn(k, n, device=place).bfloat16()
    return 2 * m * n * k / _seconds(lambda: torch.mm(a, b), place)


def _copy(elements: int, place: str) -> float:
    source = torch.zeros(elements, dtype=torch.bfloat16, device=place)
    target = torch.empty_like(source)
    return 2 * source.numel() * source.element_size() / _seconds(lambda: target.copy_(source), place)


def _seconds(work: Callable[[], object], place: str) -> float:
    """The median over repeats, after a warm-up; on the device's own clock where there is one."""
    stamps = [_stamp(place)]
    for _ in range(5):
        work()
    stamps = [_stamp(place)]
    for _ in range(_REPEATS):
        work()
        stamps.append(_stamp(place))
    return statistics.median(_intervals(stamps))


def row(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Trains the row: outcome "ok" with step seconds and memory, "oom", or "not run" with the reason."""
    if spec["liger"]:
        try:
            import liger_kernel  # noqa: F401
        except ImportError:
            return {"outcome": "not run", "reason": "liger-kernel is not installed"}
    if spec["memory_gib"] and torch.cuda.is_available():
        share = spec["memory_gib"] * 2**30 / torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(share, 1.0))
    try:
        stamps = _train(spec)
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        if not any(said in str(error) for said in _OUT_OF_MEMORY):
            raise
        return {"outcome": "oom", "reason": str(error).splitlines()[0]} | _memory()
    return {"outcome": "ok", "step_s": _intervals(stamps)[spec["skip"] - 1 :]} | _memory()


def _train(spec: Mapping[str, Any]) -> list[Any]:
    """Stamps at the end of each optimizer step."""
    from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainerCallback, TrainingArguments

    stamps: list[Any] = []
    on_gpu = torch.cuda.is_available()

    class Stamps(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            stamps.append(_stamp("cuda" if on_gpu else "cpu"))

    torch.manual_seed(0)
    config = LlamaConfig(**spec["model"])
    dtype = torch.bfloat16 if spec["model_precision"] == "bf16" else torch.float32
    with torch.device("cuda" if on_gpu else "cpu"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation=spec["attention"], dtype=dtype)
    model.config.use_cache = False
    arguments = TrainingArguments(
        output_dir=spec["folder"],
        max_steps=spec["steps"],
        per_device_train_batch_size=spec["micro_batch"],
        bf16=spec["mixed_precision"] == "bf16",
        tf32=True if on_gpu and spec["model_precision"] == "fp32" else None,
        optim="adamw_torch",
        use_liger_kernel=spec["liger"],
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=not on_gpu,
    )
    Trainer(model=model, args=arguments, train_dataset=_tokens(spec), callbacks=[Stamps()]).train()
    return stamps


def _tokens(spec: Mapping[str, Any]) -> list[dict[str, torch.Tensor]]:
    """Random token ids, sequence by sequence; a small pool repeats, which no kernel can tell."""
    pool = torch.randint(0, spec["model"]["vocab_size"], (64, spec["seq_len"]))
    wanted = spec["steps"] * spec["micro_batch"]
    return [{"input_ids": pool[i % len(pool)], "labels": pool[i % len(pool)]} for i in range(wanted)]


def _stamp(place: str) -> Any:
    """A moment: an event on the device's stream, seconds of the host's clock without one."""
    if place == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _intervals(stamps: list[Any]) -> list[float]:
    """Seconds between neighbouring stamps."""
    if stamps and not isinstance(stamps[0], float):
        torch.cuda.synchronize()
        return [first.elapsed_time(second) / 1e3 for first, second in pairwise(stamps)]
    return [second - first for first, second in pairwise(stamps)]


def _memory() -> dict[str, Any]:
    if not torch.cuda.is_available():
        return {"allocated_bytes": None, "reserved_bytes": None}
    return {
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
    }


def _device_facts(place: str) -> dict[str, Any]:
    from diagnose.probes.facts.machine import device

    if place == "cuda":
        torch.cuda.init()
    return device() or {"name": "CPU"}


def _versions() -> dict[str, Any]:
    from diagnose.probes.facts.machine import versions

    return {name: found for name, found in versions().items() if name != "liger_model_types"}


def main() -> None:
    """Do what the specification says."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    result = ceilings(spec) if spec["task"] == "ceilings" else row(spec)
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
