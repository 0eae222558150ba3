"""Jobs under transformers' Trainer beside what `diagnose fit` said of them: step time, tokens/s, memory.

fitted.py FOLDER: one process for each row, `fitted.py row SPEC RESULT`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from kit import DIAGNOSE, LLAMA_1B, SMALL, TINY, board, left_s, ran, tell, tried

LLAMA_3B = {**LLAMA_1B, "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24, "head_dim": 128}
SIZES = {"llama-3.2-1b": LLAMA_1B, "llama-3.2-3b": LLAMA_3B}
KEYS = ("model", "batch", "tokens", "dtype", "attention", "checkpointing", "liger")
ROWS = (
    ("llama-3.2-1b", 4, 4096, "bf16", "sdpa", "none", False),
    ("llama-3.2-1b", 16, 1024, "bf16", "sdpa", "full", False),
    ("llama-3.2-1b", 8, 1024, "bf16-mixed", "sdpa", "none", False),
    ("llama-3.2-3b", 4, 2048, "bf16", "sdpa", "none", True),
    ("llama-3.2-1b", 2, 1024, "bf16", "sdpa", "none", False),
    ("llama-3.2-1b", 4, 1024, "tf32", "sdpa", "none", False),
)
WARM_UP = 4


def main() -> None:
    """Each job, or the one of a row."""
    if sys.argv[1] == "row":
        spec = json.loads(Path(sys.argv[2]).read_text())
        Path(sys.argv[3]).write_text(json.dumps(tried(row, spec)))
        return
    folder, found = Path(sys.argv[1]), []
    folder.mkdir(parents=True, exist_ok=True)
    for number, values in enumerate(ROWS[:2] if TINY else ROWS):
        if left_s() < 25 and not TINY:
            break
        found.append(told(folder, number, dict(zip(KEYS, values, strict=True))))
        print(found[-1]["job"], found[-1]["seen"], flush=True)
        tell({"board": board(), "rows": found})


def told(folder: Path, number: int, job: dict[str, Any]) -> dict[str, Any]:
    """What fit says of a job, what the job does, and their quotients."""
    of: dict[str, Any] = {"job": job, "fit": tried(foretold, job)}
    spec = {**job, "sizes": SIZES[job["model"]], "steps": 16}
    if TINY:
        spec |= {"sizes": SMALL, "batch": 2, "tokens": 32, "liger": False, "steps": 8}
    given, result = folder / f"{number}.spec.json", folder / f"{number}.result.json"
    given.write_text(json.dumps(spec))
    done = ran([sys.executable, __file__, "row", str(given), str(result)], min(70, max(left_s() - 3, 15)))
    seen = of["seen"] = json.loads(result.read_text()) if result.is_file() else {"failed": done["err"][-400:]}
    if "step_s" in seen and "step_s" in of["fit"]:
        of["predicted / measured step"] = round(of["fit"]["step_s"] / seen["step_s"], 3)
        if seen.get("reserved"):
            of["counted / reserved memory"] = round(of["fit"]["bytes"] / seen["reserved"], 3)
    return of


def foretold(job: dict[str, Any]) -> dict[str, Any]:
    """What `diagnose fit` says of the job on this card."""
    asked = {
        "--model": job["model"], "--gpu": board(), "--seq-len": job["tokens"], "--micro-batch": job["batch"],
        "--accumulation": 1, "--dtype": job["dtype"], "--attn": job["attention"],
        "--checkpointing": job["checkpointing"],
    }  # fmt: skip
    words = [str(word) for pair in asked.items() for word in pair]
    done = ran([*DIAGNOSE, "fit", *words, "--json", *(["--liger"] if job["liger"] else [])], 30, most=400_000)
    page = json.loads(done["out"])
    step, memory = page["step"], page["memory"]
    return {
        "step_s": step["seconds"],
        "range_s": step["seconds_range"],
        "tokens_per_s": step["tokens_per_s"],
        "bytes": memory["total_bytes"],
        "parts_s": step["parts_s"],
        "parts_bytes": memory["parts"],
    }


def row(spec: dict[str, Any]) -> dict[str, Any]:
    """Train, and tell the median step and the memory."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainerCallback

    place = "cuda" if torch.cuda.is_available() else "cpu"
    stamps: list[float] = []

    class Stamps(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            if place == "cuda":
                torch.cuda.synchronize()
            stamps.append(time.perf_counter())

    config = LlamaConfig(**spec["sizes"], max_position_embeddings=spec["tokens"], use_cache=False)
    dtype = torch.bfloat16 if spec["dtype"] == "bf16" else torch.float32
    with torch.device(place):
        model = AutoModelForCausalLM.from_config(config, attn_implementation=spec["attention"], dtype=dtype)
    pool = [torch.randint(1, config.vocab_size, (spec["tokens"],)) for _ in range(16)]
    data = [{"input_ids": ids, "labels": ids} for ids in pool] * 64
    Trainer(model=model, args=arguments(spec, place), train_dataset=data, callbacks=[Stamps()]).train()
    step_s = median(later - earlier for earlier, later in pairwise(stamps[WARM_UP:]))
    told = {"step_s": step_s, "tokens_per_s": spec["batch"] * spec["tokens"] / step_s}
    if place == "cuda":
        told |= {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    return told


def arguments(spec: dict[str, Any], place: str) -> Any:
    """The Trainer's arguments of a job."""
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=spec["steps"],
        per_device_train_batch_size=spec["batch"],
        bf16=spec["dtype"] in ("bf16", "bf16-mixed"),
        tf32=True if place == "cuda" and spec["dtype"] == "tf32" else None,
        optim="adamw_torch",
        gradient_checkpointing=spec["checkpointing"] == "full",
        use_liger_kernel=spec["liger"],
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=place == "cpu",
    )


if __name__ == "__main__":
    main()
