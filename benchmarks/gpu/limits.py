"""Largest micro-batches: what `fit` says, what runs; and a snapshot of an OOM, read by `diagnose memory`.

limits.py WORK: Llama-3.2-1B in bf16, SDPA and eager, 1,024 tokens: forward, backward and AdamW, in one process.
limits.py WORK oom: one job that runs out of memory, for the snapshot.
"""

from __future__ import annotations

import gc
import gzip
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from kit import DIAGNOSE, LLAMA_1B, SMALL, TINY, board, left_s, ran, tell, tried

TOKENS = 64 if TINY else 1024
MOST_SNAPSHOT_BYTES = 60_000_000


def main() -> None:
    """Both kinds of attention, then the OOM."""
    work, found = Path(sys.argv[1]), {}
    if sys.argv[2:] == ["oom"]:
        runs_out()
        return
    for attention in ("sdpa", "eager"):
        said = found[f"fit {attention}"] = tried(told_by_fit, attention)
        tell(found)
        guess = said.get("largest") if isinstance(said.get("largest"), int) else 16
        found[f"seen {attention}"] = tried(searched, attention, 2 if TINY else guess)
        tell(found)
        gc.collect()
    if TINY or left_s() > 25:
        snapshot(work, found)


def told_by_fit(attention: str) -> dict[str, Any]:
    """The largest micro-batch that fit foretells."""
    asked = ("--model", "llama-3.2-1b", "--gpu", board(), "--dtype", "bf16", "--attn", attention, "--seq-len", "1024")
    done = ran([*DIAGNOSE, "fit", *asked, "--json"], 30, most=200_000)
    page = json.loads(done["out"])
    return {"board": board(), "largest": value_of(page, "largest_micro_batch") or value_of(page, "largest")}


def value_of(page: Any, key: str) -> Any:
    """The first value of that key, however deep."""
    if isinstance(page, dict) and key in page:
        return page[key]
    inner = page.values() if isinstance(page, dict) else page if isinstance(page, list) else ()
    return next((found for each in inner if (found := value_of(each, key)) is not None), None)


class Trial:
    """A model and its optimizer that take a step of any batch."""

    def __init__(self, attention: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, LlamaConfig

        self.torch, self.on_gpu = torch, torch.cuda.is_available()
        self.place = "cuda" if self.on_gpu else "cpu"
        config = LlamaConfig(**(SMALL if TINY else LLAMA_1B), max_position_embeddings=TOKENS, use_cache=False)
        with torch.device(self.place):
            how = {"attn_implementation": attention, "dtype": torch.bfloat16}
            self.model = AutoModelForCausalLM.from_config(config, **how)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        self.vocabulary = config.vocab_size

    def fits(self, batch: int) -> dict[str, Any]:
        """Two steps of that batch, from an empty cache."""
        gc.collect()
        cuda, since = self.torch.cuda, time.perf_counter()
        if self.on_gpu:
            cuda.empty_cache()
            cuda.reset_peak_memory_stats()
        try:
            self.steps(batch)
            ok = True
        except self.torch.OutOfMemoryError:
            ok = False
        self.optimizer.zero_grad()
        told = {"batch": batch, "ok": ok, "s": round(time.perf_counter() - since, 2)}
        if self.on_gpu:
            told |= {"allocated": cuda.max_memory_allocated(), "reserved": cuda.max_memory_reserved()}
        return told

    def steps(self, batch: int) -> None:
        """Two of them, to their end on the device."""
        for _ in range(2):
            ids = self.torch.randint(1, self.vocabulary, (batch, TOKENS), device=self.place)
            self.model(input_ids=ids, labels=ids).loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        if self.on_gpu:
            self.torch.cuda.synchronize()


def searched(attention: str, guess: int) -> dict[str, Any]:
    """Upwards or downwards from the guess until the limit lies between two batches."""
    trial, tries, good, bad, batch = Trial(attention), [], 0, None, guess
    while left_s() > 25 and len(tries) < (3 if TINY else 9):
        tries.append(trial.fits(batch))
        if tries[-1]["ok"]:
            good = max(good, batch)
        else:
            bad = batch if bad is None else min(bad, batch)
        if bad is not None and bad - good <= 1:
            break
        batch = good + max(good // 10, 1) if bad is None else max((good + bad) // 2, 1)
    return {"fits": good, "fails": bad, "tries": tries}


def runs_out() -> None:
    """A job whose batches double until memory is out."""
    trial, batch = Trial("sdpa"), 8
    for _ in range(12):
        trial.fits(2)
    if trial.on_gpu:
        trial.torch.cuda.set_per_process_memory_fraction(0.35)
    for _ in range(2 if TINY else 6):
        batch *= 2
        if not trial.fits(batch)["ok"]:
            break


def snapshot(work: Path, found: dict[str, Any]) -> None:
    """The OOM under `diagnose run`, with `--memory` and without, and what `diagnose memory` makes of it."""
    bundle = work / "oom"
    for options in (["--memory"], []):
        asked = ("run", *options, "--no-ledger", "--no-report", "--out", str(bundle))
        done = ran([*DIAGNOSE, *asked, "--", sys.executable, __file__, str(work), "oom"], max(left_s() - 15, 20))
        files = {path.name: path.stat().st_size for path in sorted(bundle.glob("*"))}
        found[f"oom run {' '.join(options)}"] = {key: done[key] for key in ("code", "s", "err")} | {"files": files}
        tell(found)
        if any(bundle.glob("memory-*.pickle")) or left_s() < 25:
            break
    for path in sorted(bundle.glob("memory-*.pickle")):
        told = ran([*DIAGNOSE, "memory", str(path)], max(left_s(), 10))
        found[f"memory {path.name}"] = {"code": told["code"], "out": told["out"][:4000], "err": told["err"][-500:]}
        tell(found)
        if path.stat().st_size < MOST_SNAPSHOT_BYTES:
            with path.open("rb") as plain, gzip.open(f"{path}.gz", "wb", 6) as packed:
                shutil.copyfileobj(plain, packed)


if __name__ == "__main__":
    main()
