"""The kinds of job: how each is slow, which advice is right, and the form in which it is followed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LOADING = ("data-wait", "bursts-of-data-wait")


@dataclass(frozen=True)
class Kind:
    """One kind of job.

    Attributes:
        name: what is slow about it.
        script: of this folder.
        slow: its options as it is.
        right: ids of the rules of which one has to come first; none where nothing is worth doing.
        followed: the options with the advice followed by hand.
        by_patch: option of the script for a key of the advice's patch, whose value then counts.
        ranks: processes, started by torchrun where there are several.
        classes: what holds up the step, by how the job is made; none where that is a matter of opinion.
    """

    name: str
    script: str
    slow: Mapping[str, object]
    right: tuple[str, ...]
    followed: Mapping[str, object] = field(default_factory=dict)
    by_patch: Mapping[str, str] = field(default_factory=dict)
    ranks: int = 1
    classes: tuple[str, ...] = ()


DATA, HOST = ("data-bound",), ("host-bound",)
WORKERS = {"dataloader_num_workers": "workers", "num_workers": "workers"}
KINDS = (
    Kind("loader sleeps, 0 workers", "loader.py", {"sleep_ms": 4}, LOADING, {"workers": 4}, WORKERS, classes=DATA),
    Kind(
        "loader sleeps, 1 worker", "loader.py", {"sleep_ms": 4, "workers": 1}, LOADING, {"workers": 4}, WORKERS,
        classes=DATA,
    ),
    Kind(
        "loader computes", "loader.py", {"sleep_ms": 0, "compute_ms": 3}, LOADING, {"workers": 1}, WORKERS,
        classes=DATA,
    ),
    Kind(
        "LoRA, batch 1 x accumulation 8", "lora.py", {}, ("small-micro-batches", "low-memory-use"),
        {"batch": 8, "accumulate": 1},
    ),
    Kind(
        "dynamic padding, skewed lengths", "trainer.py", {"skewed": True, "batch": 16, "width": 128},
        ("padded-batches",), {"grouped": True},
    ),
    Kind(
        "padding to max_length", "trainer.py", {"skewed": True, "pads_to": 128, "width": 128}, ("padded-batches",),
        {"pads_to": 0},
    ),
    Kind(
        "Adagrad, one tensor at a time", "bare.py",
        {"optimizer": "Adagrad", "form": "loop", "width": 32, "layers": 200, "rows": 8},
        ("cpu-optimizer",), {"form": "fused"}, classes=("memory-bound", "host-bound"),
    ),
    Kind(
        "Python in a callback", "trainer.py", {"python_items": 300_000}, ("python-host",),
        {"python_every": 50}, classes=HOST,
    ),
    Kind(
        "logs each step, which costs little", "trainer.py", {"logs_every": 1, "width": 256, "batch": 16},
        (), {"logs_every": 100, "nan_filter": False},
        {"logging_steps": "logs_every", "logging_nan_inf_filter": "nan_filter"},
    ),
    Kind(
        "evaluates every other step", "trainer.py", {"evaluates_every": 2}, ("evaluation-cadence",),
        {"evaluates_every": 8}, {"eval_steps": "evaluates_every"},
    ),
    Kind(
        "checkpoint every other step", "trainer.py", {"saves_every": 2, "width": 128}, ("checkpoint-cadence",),
        {"saves_every": 8}, {"save_steps": "saves_every"},
    ),
    Kind(
        "host work on rank 1", "loader.py", {"sleep_ms": 0, "host_ms": 60}, ("straggler",), {"host_ms": 0}, ranks=2,
        classes=HOST,
    ),
    Kind(
        "loader sleeps on both ranks", "loader.py", {"sleep_ms": 4}, LOADING, {"workers": 4}, WORKERS, ranks=2,
        classes=DATA,
    ),
    Kind(
        "tokenises in the collator", "texts.py", {}, ("text-work-in-the-loop", "python-host", *LOADING),
        {"tokenised": True}, {"num_workers": "workers"}, classes=("data-bound", "host-bound"),
    ),
    Kind(
        "AdamW, one tensor at a time", "bare.py", {"form": "loop", "width": 32, "layers": 200, "rows": 8},
        ("cpu-optimizer", "single-tensor-optimizer"), {"form": "fused"}, classes=("memory-bound", "host-bound"),
    ),
    Kind(
        "many objects in each step", "bare.py", {"records": 15_000, "width": 64}, ("gc-pauses",),
        {"collects": False}, classes=HOST,
    ),
    Kind(
        "Trainer, batch 1 x accumulation 8", "trainer.py", {"batch": 1, "accumulate": 8},
        ("small-micro-batches", "low-memory-use"), {"batch": 8, "accumulate": 1},
    ),
    Kind(
        "searches for unused parameters", "parallel.py", {"searches": True}, ("unused-parameter-search",),
        {"searches": False}, ranks=2,
    ),
    Kind(
        "small buckets", "parallel.py", {"bucket_mb": 0.02}, ("small-collectives", "latency-bound-collectives"),
        {"bucket_mb": 25.0}, ranks=2, classes=("communication-bound",),
    ),
    Kind(
        "healthy: large products", "bare.py", {"width": 1024, "layers": 4, "rows": 512, "steps": 40}, (),
        classes=("compute-bound",),
    ),
)  # fmt: skip
