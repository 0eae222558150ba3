"""The faults: how each is made, what is true of it, and the remedy. Sizes are for a GPU of 80 GB; `tiny` for a CPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Options = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """Of `classes` and `right` one has to be told: none of `right` means that nothing is worth doing.

    The remedy is the change that the first of `right` advises, or else that of `cure`.
    """

    classes: tuple[str, ...]
    right: tuple[str, ...]
    slow: Options
    fast: Options
    tiny: Options = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    cure: str = ""


DEFAULTS: Options = {
    "model": "gpt",
    "width": 1024,
    "layers": 8,
    "heads": 16,
    "tokens": 512,
    "batch": 16,
    "vocab": 8192,
    "pixels": 56,
    "dtype": "bf16",
    "attention": "sdpa",
    "fused_loss": False,
    "tf32": True,
    "benchmark": True,
    "deterministic": False,
    "anomaly": False,
    "optimizer": "fused",
    "compiled": False,
    "dynamic": None,
    "graph": False,
    "recompute": False,
    "accumulate": 1,
    "workers": 2,
    "pins": True,
    "resident": False,
    "sleep_ms": 0,
    "words": 0,
    "pads": "",
    "varies": False,
    "item": False,
    "breaks": False,
    "prints": 0,
    "to_host": 0,
    "saves": False,
    "empties": False,
    "objects": 0,
    "channels_last": False,
    "tight": False,
    "warm_up": 12,
    "env": {},
    "unset": (),
}
LITTLE: Options = {
    "width": 32,
    "layers": 2,
    "heads": 4,
    "tokens": 32,
    "batch": 4,
    "vocab": 512,
    "pixels": 12,
    "workers": 0,
}
TINY_WIDTH: Options = {"width": 256, "layers": 4, "heads": 4, "tokens": 64, "batch": 4}
CONV: Options = {"model": "conv", "width": 128, "layers": 10, "batch": 64}
FAULTS: dict[str, Fault] = {
    "eager attention": Fault(
        ("memory-bound",),
        ("unfused-attention", "attention-off-flash-path"),
        {"attention": "eager", "tokens": 1024, "batch": 8},
        {"attention": "sdpa"},
    ),
    "item in each layer": Fault(
        ("host-bound",), ("sync-every-step",), {**TINY_WIDTH, "layers": 16, "item": True}, {"item": False}
    ),
    "loader sleeps": Fault(
        ("data-bound",), ("data-wait", "bursts-of-data-wait"), {"sleep_ms": 4, "workers": 0}, {"workers": 12}
    ),
    "loss not fused": Fault(
        ("memory-bound",),
        ("unfused-loss",),
        {"vocab": 128256, "layers": 2},
        {"fused_loss": True},
        {"vocab": 4096, "fused_loss": False},
    ),
    "fp32 without TF32": Fault(
        ("compute-bound",),
        ("fp32-without-tensor-cores", "products-in-single-precision"),
        {"dtype": "fp32", "tf32": False},
        {"tf32": True},
    ),
    "many small kernels": Fault(
        ("host-bound",),
        ("launches-one-by-one", "launch-bound", "low-memory-use", "small-micro-batches"),
        {"model": "small", "width": 256, "layers": 60, "batch": 64, "resident": True},
        {"graph": True},
        {"graph": False},
    ),
    "tokenises in the collator": Fault(
        ("data-bound", "host-bound"),
        ("text-work-in-the-loop", "data-wait", "bursts-of-data-wait", "python-host"),
        {"words": 600, "workers": 0},
        {"workers": 8},
        cure="data-wait",
    ),
    "optimizer by single tensors": Fault(
        ("host-bound", "memory-bound"),
        ("single-tensor-optimizer", "launch-bound", "unfused-optimizer"),
        {**TINY_WIDTH, "layers": 24, "optimizer": "single"},
        {"optimizer": "fused"},
    ),
    "pageable copies": Fault(
        (),
        ("pageable-copies", "exposed-copies", "data-wait", "channels-moved-for-convolutions"),
        {**CONV, "layers": 2, "batch": 512, "pixels": 96, "pins": False, "workers": 8},
        {"pins": True},
    ),
    "copies to the host": Fault(
        ("host-bound",), ("exposed-copies-to-host", "sync-every-step"), {"to_host": 200}, {"to_host": 0}
    ),
    "checkpoint each step": Fault(
        ("host-bound",),
        ("checkpoint-cadence", "python-host", "exposed-copies-to-host", "sync-every-step"),
        {"saves": True, "layers": 2, "width": 512, "heads": 8},
        {"saves": False},
    ),
    "uncached allocations": Fault(
        ("host-bound",),
        ("uncached-allocations",),
        {**TINY_WIDTH, "layers": 8, "batch": 16},
        {"unset": ("PYTORCH_NO_CUDA_MEMORY_CACHING",)},
        env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    ),
    "channels moved": Fault(
        ("memory-bound",), ("channels-moved-for-convolutions",), {**CONV, "benchmark": True}, {"channels_last": True}
    ),
    "convolutions not searched": Fault(
        ("compute-bound", "memory-bound"),
        ("unsearched-convolutions", "channels-moved-for-convolutions"),
        {**CONV, "dtype": "fp32", "benchmark": False},
        {"benchmark": True},
    ),
    "pads to the longest possible": Fault(
        (), ("padded-batches",), {"pads": "longest possible", "layers": 8}, {"pads": "grouped"}
    ),
    "recomputes needlessly": Fault(
        ("compute-bound",), ("needless-recomputation",), {"recompute": True}, {"recompute": False}
    ),
    "collects garbage": Fault(
        ("host-bound",), ("gc-pauses", "python-host"), {**TINY_WIDTH, "layers": 8, "objects": 15000}, {"objects": 0}
    ),
    "prints norms each step": Fault(
        ("host-bound",),
        ("sync-every-step", "logging-cadence"),
        {**TINY_WIDTH, "layers": 8, "prints": 40},
        {"prints": 0},
    ),
    "blocking launches": Fault(
        ("host-bound",),
        ("blocking-launches",),
        {**TINY_WIDTH, "layers": 12},
        {"unset": ("CUDA_LAUNCH_BLOCKING",)},
        env={"CUDA_LAUNCH_BLOCKING": "1"},
    ),
    "tiny batch": Fault(
        ("host-bound",),
        ("small-micro-batches", "low-memory-use", "launch-bound", "optimizer-for-few-tokens"),
        {"batch": 1, "tokens": 128, "accumulate": 8},
        {"batch": 8, "accumulate": 1},
    ),
    "empties the cache": Fault(("host-bound",), ("emptied-cache",), {"empties": True, "layers": 8}, {"empties": False}),
    "sizes that fit no tile": Fault(
        ("compute-bound", "memory-bound"),
        ("misaligned-products", "unfused-loss"),
        {"vocab": 32771, "layers": 2},
        {"vocab": 32768},
        {"vocab": 515},
    ),
    "anomaly detection": Fault(("host-bound",), ("anomaly-detection",), {"anomaly": True}, {"anomaly": False}),
    "healthy: large products": Fault(
        ("compute-bound",), (), {"width": 4096, "heads": 32, "layers": 4, "tokens": 1024, "batch": 8, "vocab": 4096}, {}
    ),
    "allocator near its limit": Fault(
        (),
        ("allocator-churn", "near-out-of-memory"),
        {"varies": True, "batch": 32, "tokens": 1024, "tight": True},
        {"tight": False},
    ),
    "graph breaks": Fault(
        (),
        ("graph-breaks", "launches-one-by-one"),
        {**TINY_WIDTH, "layers": 6, "compiled": True, "breaks": True, "warm_up": 16},
        {"breaks": False},
        {"layers": 1},
    ),
    "recompilations": Fault(
        (),
        ("recompilations", "compile-in-window", "failed-compilations"),
        {**TINY_WIDTH, "layers": 1, "tokens": 128, "compiled": True, "dynamic": False, "varies": True},
        {"varies": False},
    ),
}


def options_of(fault: Fault, tiny: bool) -> tuple[Options, Options]:
    """The options with the fault and with its remedy."""
    slow = {**DEFAULTS, **fault.slow}
    if tiny:
        keeps = {key: value for key, value in fault.slow.items() if key not in LITTLE}
        small = {key: value for key, value in fault.tiny.items() if key not in fault.fast}
        slow = {**DEFAULTS, **keeps, **LITTLE, **small}
    fast = {**slow, **fault.fast, **(fault.tiny if tiny else {})}
    slow["env"] = fault.env
    if tiny:
        fast |= {"workers": 0, "graph": False, "fused_loss": False}
    return slow, fast
