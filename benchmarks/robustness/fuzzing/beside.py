"""Sound inputs beside a trace: capture records, patches, settings and logs of steps."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from .seeds import ROOT, SINGLE

_SCHEMA = ROOT / "diagnose" / "data" / "capture.schema.json"
_TYPES = {"string": "text", "integer": 4, "number": 1.5, "boolean": True, "null": None}
_KNOWN: dict[str, Any] = {
    "world_size": 2, "overhead_factor": 1.2, "model_type": "llama", "class": "AdamW", "torch": "2.9.0",
    "transformers": "4.57.0", "attn_implementation": "sdpa", "total_memory_bytes": 85_017_755_648, "clock": "host",
    "parameters": 100_000_000, "trainable": 100_000_000, "name": "NVIDIA H100 80GB HBM3", "tokens": 4096.0,
    "padding_share": 0.3, "compute_capability": "9.0", "multiprocessors": 132, "first_active_step": 12,
    "sharding_strategy": "FULL_SHARD", "rank": 0, "step": "optimizer",
}  # fmt: skip
_FREE: dict[str, dict[str, Any]] = {
    "slurm": {"SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2"},
    "dtypes": {"float32": 100_000_000},
    "config": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50257},
    "text_config": {"hidden_size": 768, "num_hidden_layers": 12, "tie_word_embeddings": True},
    "training_arguments": {
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "bf16": True,
        "optim": "adamw_torch",
        "save_strategy": "steps",
        "save_steps": 10,
        "eval_strategy": "steps",
        "eval_steps": 10,
        "torch_compile_mode": None,
        "max_grad_norm": 1.0,
    },
    "shapes": {"input_ids": [4, 1024], "labels": [4, 1024]},
    "environment": {"OMP_NUM_THREADS": "4"},
    "applied": {"training_arguments": {"optim": "adamw_torch"}},
}


@cache
def _schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_SCHEMA.read_text(encoding="utf-8"))
    return found


def record(seeded: random.Random, rank: int = 0) -> dict[str, Any]:
    """A capture record as the schema allows it, with all fields or some of them null, or one of the tests."""
    if seeded.random() < 0.25:
        cases = [dict(case.record) for case in SINGLE.values() if case.record]
        found: dict[str, Any] = json.loads(json.dumps(seeded.choice(cases)))
        return found
    whole: dict[str, Any] = _of_schema(seeded, _schema(), "", seeded.choice([0.0, 0.2, 0.6]))
    return whole | {"rank": rank}


def _of_schema(seeded: random.Random, node: dict[str, Any], name: str, nulls: float) -> Any:
    kinds = node.get("type", "string")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "null" in kinds and seeded.random() < nulls:
        return None
    if "enum" in node or "const" in node:
        return seeded.choice(node.get("enum", [node.get("const")]))
    if "object" in kinds:
        if name in _FREE:
            return dict(_FREE[name])
        known = node.get("properties", {})
        return {key: _of_schema(seeded, each, key, nulls) for key, each in known.items()}
    if "array" in kinds:
        return _list(seeded, node, name, nulls)
    return _KNOWN.get(name, _TYPES[kinds[0]])


def _list(seeded: random.Random, node: dict[str, Any], name: str, nulls: float) -> list[Any]:
    if name.endswith("_ns"):
        return [round(5e6 * seeded.uniform(0.9, 1.2)) for _ in range(seeded.randint(0, 12))]
    if name == "speedup":
        return [1.05, 1.2]
    if "prefixItems" in node:
        return [_of_schema(seeded, each, "", nulls) for each in node["prefixItems"]]
    return [_of_schema(seeded, node.get("items", {"type": "string"}), "", nulls) for _ in range(2)]


def patch(seeded: random.Random) -> Any:
    """A patch, several, or a diagnosis with a plan."""
    one = seeded.choice(
        [
            {
                "target": "training_arguments",
                "set": {"optim": "adamw_torch_fused", "bf16": True, "dataloader_num_workers": 4},
            },
            {"target": "ddp", "set": {"static_graph": True, "bucket_cap_mb": 50}},
            {
                "target": "environment",
                "set": {"OMP_NUM_THREADS": 4, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            },
            {"target": "model_kwargs", "set": {"attn_implementation": "flash_attention_2", "dtype": "bfloat16"}},
            {"target": "dataloader", "set": {"num_workers": 4, "pin_memory": True, "prefetch_factor": 4}},
        ]
    )
    pick = seeded.random()
    return one if pick < 0.3 else [one, one] if pick < 0.5 else _diagnosis(one)


def _diagnosis(change: dict[str, Any]) -> dict[str, Any]:
    planned = {"rule": "launch-bound", "patch": change, "predicted_speedup": [1.1, 1.3], "do": "x"}
    steps = {"source": "ProfilerStep", "count": 4, "time_ns": 40_000_000, "device_time_ns": 39_000_000}
    values = {"step_time_ns": 1e7, "unprofiled_step_time_ns": 9e6, "micro_batch_size": 4.0, "accumulation_steps": 2.0}
    facts = [{"name": name, "value": value, "unit": "", "because": None} for name, value in values.items()]
    return {
        "schema_version": 4,
        "plan": [{"rule": "host", "patch": None}, planned],
        "findings": [planned],
        "steps": steps,
        "facts": facts,
        "replay": {"measured_ns": 1e7, "replayed_ns": 1e7},
    }


def settings(seeded: random.Random) -> dict[str, Any]:
    """A table of settings with everything that a file may hold."""
    analyze = {
        "rules": [], "gpu-hour-price": 2.5, "fail-on": "critical", "details": False, "kernels": 5, "params": "1.2B",
        "peak-tflops": 900.0, "step": 12, "rank": 0, "jobs": 1, "no-cache": True, "quiet": False,
    }  # fmt: skip
    run = {"steps": 4, "warmup": 2, "skip": 10, "stop": False, "no-report": True}
    kept = seeded.sample(list(analyze), 4)
    return {"analyze": {key: analyze[key] for key in kept}, "run": run, "series": {"unit": "ms"}}


def steps_table(seeded: random.Random) -> list[dict[str, Any]]:
    """Rows of a log of steps, of one rank or two, with or without a change in the middle."""
    columns = seeded.choice(
        [("step_time_ms", 5.0), ("step_time_s", 0.005), ("steps_per_second", 200.0), ("duration_us", 5e3)]
    )
    count, ranks, slower = seeded.choice([3, 20, 60, 200]), seeded.choice([1, 1, 2]), seeded.choice([1.0, 1.3, 2.0])
    rows: list[dict[str, Any]] = []
    for step in range(count):
        for rank in range(ranks):
            factor = (slower if step > count // 2 else 1.0) * seeded.choice([1.0, seeded.uniform(0.98, 1.05)])
            more = {"rank": rank, "host": f"node{rank}"} if ranks > 1 else {}
            rows.append({"step": step, **more, columns[0]: columns[1] * factor, "loss": 2.5, "data_time_ms": 0.2})
            if seeded.random() < 0.02:
                rows[-1]["timestamp"] = f"2026-01-02T03:04:{step % 60:02d}Z"
    return rows


def trainer_state(seeded: random.Random) -> dict[str, Any]:
    """What transformers writes beside a checkpoint."""
    clock, entries = 0.0, []
    for step in range(10, 10 * seeded.choice([4, 30, 80]), 10):
        clock += 0.5 * seeded.uniform(0.97, 1.03)
        entries.append({"epoch": step / 100, "loss": 2.0, "step": step, "train_runtime": clock, "grad_norm": 1.0})
        if step % 50 == 0:
            entries.append({"epoch": step / 100, "eval_loss": 2.0, "eval_runtime": 0.2, "step": step})
    entries.append({"step": step, "train_loss": 2.0, "train_runtime": clock, "train_steps_per_second": 20.0})
    return {"global_step": step, "log_history": entries, "max_steps": step, "is_world_process_zero": True}


def rule_files() -> list[Path]:
    """The rules that come with the package."""
    return sorted((ROOT / "rules").glob("*.toml"))
