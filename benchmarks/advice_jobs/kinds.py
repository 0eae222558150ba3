"""The kinds of job: how each is slow, which advice is right, and the form in which it is followed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LOADING = ("data-wait", "bursts-of-data-wait")
LESS_WORK = "loading-beyond-workers"


@dataclass(frozen=True)
class Kind:
    """One kind of job.

    Attributes:
        name: what is slow about it.
        script: of this folder.
        slow: its options as it is.
        right: ids of the rules of which one has to come first, "" for no advice; none where nothing is worth doing,
            or where the words alone tell.
        says: a pattern of words that the first advice must hold, as the user reads it.
        never: a pattern of what it must not hold.
        needs: modules of packages that not everybody has who runs this.
        without: units of the CPU with which the job is not slow, as /proc/cpuinfo names them.
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
    says: str = ""
    never: str = ""
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def truth(self) -> str:
        """What is right, in words."""
        rules = " or ".join(rule or "nothing" for rule in self.right) or ("" if self.says else "nothing")
        words = f'saying "{self.says}"' if self.says else ""
        return " ".join(filter(None, (rules, words, f'never "{self.never}"' if self.never else "")))


DATA, HOST = ("data-bound",), ("host-bound",)
WORKERS = {"dataloader_num_workers": "workers", "num_workers": "workers"}
KINDS = (
    Kind("loader sleeps, 0 workers", "loader.py", {"sleep_ms": 4}, LOADING, {"workers": 4}, WORKERS, classes=DATA),
    Kind(
        "loader sleeps, 1 worker", "loader.py", {"sleep_ms": 4, "workers": 1}, LOADING, {"workers": 4}, WORKERS,
        classes=DATA,
    ),
    Kind(
        "loader computes", "loader.py", {"sleep_ms": 0, "compute_ms": 3}, (LESS_WORK,), {"compute_ms": 0.6},
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
        {"pads_to": 0, "grouped": True}, says="longest",
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
        "metrics of evaluations in Python", "trainer.py", {"evaluates_every": 8, "draws": 20_000, "pads_to": 128},
        ("metrics-in-python",), {"draws": 40},
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
        {"tokenised": True}, {"num_workers": "workers"}, classes=("data-bound", "host-bound"), needs=("accelerate",),
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
        # gradients are mapped anew in each step: kept, the step is 5 to 20 % faster on some machines
        "healthy: large products", "bare.py", {"width": 1024, "layers": 4, "rows": 512, "steps": 40},
        ("", "page-faults"), classes=("compute-bound",),
    ),
    Kind(
        "rows padded beforehand", "trainer.py", {"skewed": True, "padded": True, "width": 128}, ("padded-batches",),
        {"padded": False, "grouped": True}, says="longest",
    ),
    Kind(
        "PPO, environments one by one", "ppo.py", {}, (), {"vectorised": True}, classes=HOST, says="rollout|ppo.py",
        never="num_workers|compile", needs=("gymnasium",),
    ),
    Kind(
        "stream that workers would repeat", "loader.py", {"streams": "plain"}, LOADING,
        {"streams": "split", "workers": 4}, classes=DATA, says="get_worker_info",
    ),
    Kind(
        "datasets streaming, 4 shards", "loader.py", {"streams": "shards"}, LOADING, {"workers": 4}, WORKERS,
        classes=DATA, needs=("datasets",),
    ),
    Kind(
        "preference training, skewed", "dpo.py",
        {"skewed": True, "batch": 8, "accumulate": 1, "width": 128}, ("padded-batches",), {"by_length": True},
        never="group_by_length", needs=("trl", "datasets"),
    ),
    Kind(
        "preference training, batch 1", "dpo.py", {"batch": 1, "accumulate": 8},
        ("small-micro-batches", "low-memory-use"), {"batch": 8, "accumulate": 1}, needs=("trl", "datasets"),
    ),
    Kind(
        "folder of images", "images.py", {}, (LESS_WORK,), classes=DATA, needs=("PIL",),
    ),
    Kind(
        "tensors of lists of numbers", "loader.py", {"sleep_ms": 0, "lists": 16384, "steps": 80}, (LESS_WORK,),
        {"lists": 0}, classes=DATA,
    ),
    Kind(
        "DeepSpeed, batch 1", "zero.py", {}, ("small-micro-batches", "low-memory-use"),
        {"batch": 8, "accumulate": 1}, needs=("deepspeed",),
    ),
    Kind(
        "Lightning, loader sleeps", "lit.py", {}, LOADING, {"workers": 4}, WORKERS, classes=DATA,
        needs=("lightning",),
    ),
    Kind(
        "Hydra, scores in Python", "hydra_app.py", {}, ("python-host",), {"scores_every": 50}, classes=HOST,
        says="edit_distance|hydra_app.py", needs=("hydra",),
    ),
    Kind(
        "bare loop evaluates every 4 steps", "bare.py", {"evaluates_every": 4, "width": 256, "layers": 6, "rows": 256},
        (), {"evaluates_every": 32}, says="[Ee]valua",
    ),
    Kind(
        "epochs of two batches", "loader.py",
        {"sleep_ms": 0, "compute_ms": 0.3, "steps": 2, "epochs": 30, "rows": 8}, ("", *LOADING, "python-host"),
        {"keeps": True}, never="num_workers=[1-9]",
    ),
    Kind(
        "workers bound to one core", "loader.py", {"sleep_ms": 0, "compute_ms": 3, "workers": 4, "binds": True},
        (*LOADING, "starved-host"), {"binds": False}, classes=DATA, says="sched_setaffinity",
        never="disk, network",
    ),
    Kind(
        "16 threads on each of 2 ranks", "parallel.py",
        {"threads": 16, "width": 512, "layers": 6, "rows": 256, "steps": 40}, ("starved-host",), {"threads": 1},
        ranks=2, classes=HOST, says="OMP_NUM_THREADS|set_num_threads",
    ),
    Kind(
        "fp16 on a CPU", "transformer.py", {"autocast": "fp16", "compiles": False}, (),
        {"autocast": "bf16"}, says="bf16|bfloat16", without=("avx512_fp16", "amx_fp16"),
    ),
    Kind(
        "each length compiled anew", "transformer.py", {}, ("recompilations",), {"dynamic": True},
    ),
    Kind(
        "workers start anew in each epoch", "loader.py",
        {"sleep_ms": 0, "workers": 2, "start_s": 0.5, "steps": 8, "epochs": 8},
        (*LOADING, "workers-started-each-pass"), {"persists": True}, says="persistent_workers",
    ),
    Kind(
        "no optimizer of torch", "loader.py", {"sleep_ms": 4, "torch_optimizer": False}, ("", *LOADING),
        {"workers": 4}, WORKERS, says="backward|num_workers=[1-9]",
    ),
    Kind(
        "metrics reduced one by one", "parallel.py", {"metrics": 12, "layers": 4}, ("loop-collectives",),
        {"metrics": 0}, ranks=2, classes=("communication-bound", "host-bound"),
    ),
    Kind(
        "reduces each micro-batch", "parallel.py",
        {"accumulate": 8, "width": 512, "layers": 8, "rows": 8, "steps": 24},
        ("reduced-micro-steps", "exposed-communication", "slow-network"), {"reduces_each": False}, ranks=2,
        says="no_sync",
    ),
    Kind(
        "SGD, one tensor at a time", "bare.py",
        {"optimizer": "SGD", "form": "loop", "width": 32, "layers": 200, "rows": 8},
        ("cpu-optimizer", "single-tensor-optimizer"), {"form": "fused"},
    ),
    Kind(
        "hook in Python on each layer", "bare.py",
        {"hook_items": 10, "width": 128, "layers": 24, "rows": 64, "steps": 300}, ("python-host",),
        {"hook_items": 0}, classes=HOST, says="watch|bare.py",
    ),
    Kind(
        "outputs joined in each step", "bare.py",
        {"joins": True, "width": 256, "layers": 3, "rows": 256, "steps": 300}, ("slowing-steps",), {"joins": False},
        says="bare.py",
    ),
    Kind(
        "checks each gradient for NaN", "bare.py", {"checks": True, "width": 64, "layers": 60, "rows": 32},
        ("anomaly-detection",), {"checks": False},
    ),
    Kind(
        "asks for collections", "bare.py", {"asks": True, "width": 128, "layers": 6, "rows": 64}, ("gc-pauses",),
        {"asks": False}, classes=HOST,
    ),
    Kind(
        "Python's memory is followed", "bare.py", {"follows": True, "width": 64, "layers": 40, "rows": 32},
        ("",), {"follows": False}, says="tracemalloc",
    ),
    Kind(
        "Trainer watches peaks of memory", "trainer.py", {"watches": True}, ("watched-memory-peaks",),
        {"watches": False}, classes=HOST, needs=("psutil",),
    ),
    Kind(
        "a group for each parameter", "bare.py", {"groups": True, "width": 64, "layers": 100, "rows": 64},
        ("many-parameter-groups",), {"groups": False},
    ),
    Kind(
        "permutes all rows for a batch", "bare.py",
        {"permutes": 4_000_000, "width": 128, "layers": 6, "rows": 64}, ("seldom-operators",), {"permutes": 0},
        says="randperm",
    ),
    Kind(
        "leaves each pass after a batch", "loader.py",
        {"sleep_ms": 0, "workers": 2, "leaves": True, "counts": False, "steps": 40}, ("passes-left-early",),
        {"leaves": False}, says="iter",
    ),
    Kind(
        "large tables, dense gradients", "tables.py", {}, ("dense-embedding-gradients",), {"sparse": True},
        says="sparse",
    ),
    Kind(
        "Trainer, loader sleeps", "trainer.py", {"sleep_ms": 4.0}, LOADING, {"workers": 4}, WORKERS, classes=DATA,
    ),
    Kind(
        "Python every eighth step", "trainer.py", {"python_items": 3_000_000, "python_every": 8, "steps": 96},
        ("periodic-phase", "python-host"), {"python_items": 0}, classes=HOST, says="trainer.py",
    ),
    Kind(
        "broadcasts many buffers", "parallel.py", {"normalises": True, "layers": 40}, ("broadcast-buffers",),
        {"broadcasts": False}, ranks=2,
    ),
    Kind(
        "searches a graph that never changes", "parallel.py", {"searches": True, "spare": True, "layers": 120},
        ("repeated-graph-search", "unused-parameter-search"), {"searches": False, "static": True}, ranks=2,
    ),
    Kind(
        "uneven batches in turn", "parallel.py", {"uneven": True, "width": 512, "layers": 4, "rows": 512, "steps": 40},
        ("rotating-stragglers",), {"uneven": False}, ranks=2,
    ),
    Kind(
        "batch 1 x accumulation 8 on two ranks", "trainer.py", {"batch": 1, "accumulate": 8, "steps": 120},
        ("small-micro-batches", "low-memory-use"), {"batch": 8, "accumulate": 1}, ranks=2,
    ),
    Kind(
        "evaluates every other step, two ranks", "trainer.py", {"evaluates_every": 2, "steps": 120},
        ("evaluation-cadence",), {"evaluates_every": 8}, {"eval_steps": "evaluates_every"}, ranks=2,
    ),
    Kind(
        "checkpoint every other step, two ranks", "trainer.py", {"saves_every": 2, "width": 128, "steps": 120},
        ("checkpoint-cadence",), {"saves_every": 8}, {"save_steps": "saves_every"}, ranks=2,
    ),
    Kind(
        "padding to max_length on two ranks", "trainer.py",
        {"skewed": True, "pads_to": 128, "width": 128, "steps": 120}, ("padded-batches",),
        {"pads_to": 0, "grouped": True}, ranks=2, says="longest",
    ),
    Kind(
        "one sample in fifty stalls", "loader.py", {"sleep_ms": 0.5, "stall_ms": 400, "workers": 2, "steps": 160},
        ("late-batches",), {"workers": 8, "prefetches": 4}, {**WORKERS, "prefetch_factor": "prefetches"}, classes=DATA,
    ),
    Kind(
        "one sample in fifty stalls, no workers", "loader.py", {"sleep_ms": 0.5, "stall_ms": 400, "steps": 160},
        ("late-batches", *LOADING), {"workers": 4, "prefetches": 4}, {**WORKERS, "prefetch_factor": "prefetches"},
        classes=DATA,
    ),
    Kind(
        "double precision", "transformer.py", {"compiles": False, "double": True, "width": 256, "steps": 30},
        ("double-precision",), {"double": False}, classes=("compute-bound",),
    ),
    Kind(
        "eager attention, long texts", "causal_lm.py", {"model": "tiny", "batch": 4, "length": 1024, "steps": 24},
        ("unfused-attention-on-the-host",), {"attention": "sdpa"},
    ),
    Kind("LSTM by its cell", "rounds.py", {"cells": True}, ("looped-operators",), {"cells": False}),
    Kind(
        "mask set element by element", "rounds.py",
        {"recurrent": False, "elements": True, "length": 64, "width": 128, "batch": 32},
        ("looped-operators",), {"elements": False},
    ),
    Kind("logits of 50,257 words", "vocabulary.py", {}, ("page-faults",), {"keeps": True}),
    Kind(
        "teacher with gradients", "distil.py", {"gradients": True}, ("unstepped-gradients",), {"gradients": False},
        classes=("compute-bound",),
    ),
    Kind(
        "recomputes though memory is free", "trainer.py",
        {"recomputes": True, "width": 256, "batch": 16, "steps": 40},
        ("recomputed-on-the-host", "needless-recomputation"), {"recomputes": False},
        {"gradient_checkpointing": "recomputes", "activation_checkpointing": "recomputes"}, classes=("compute-bound",),
    ),
    Kind(
        "healthy: small transformer", "trainer.py", {"width": 256, "batch": 16, "steps": 40}, (),
    ),
)  # fmt: skip
