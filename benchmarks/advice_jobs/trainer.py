"""A small Llama under transformers' Trainer: padding, callbacks, logging, evaluation and checkpoints as asked."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import torch
from timing import Samples, Steps, options, place
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

LONGEST = 128


class Counts(TrainerCallback):
    """Tells the times of steps, and computes in Python at the end of each, as long as asked."""

    def __init__(self, steps: Steps, python_items: int, every: int) -> None:
        self._steps, self._items, self._every = steps, python_items, every

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step has ended."""
        if state.global_step % self._every == 0:
            sum(number * number % 7 for number in range(self._items))
        self._steps.ended()


class Slow(torch.utils.data.Dataset[Any]):
    """The samples, each read from a slow disk."""

    def __init__(self, rows: Sequence[Any], sleep_ms: float) -> None:
        self._rows, self._sleep_s = rows, sleep_ms / 1e3

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: int) -> Any:
        time.sleep(self._sleep_s)
        return self._rows[at]


def samples(count: int, skewed: bool, padded: bool = False) -> list[dict[str, list[int]]]:
    """Texts of one length, or of which few are long; padded as a tokenizer does that is asked for `max_length`."""
    drawn = random.Random(0)
    lengths = [min(int(4 + drawn.expovariate(1 / 24)), LONGEST) if skewed else LONGEST // 4 for _ in range(count)]
    rows = [[drawn.randrange(1, 512) for _ in range(length)] for length in lengths]
    return [{"input_ids": row + [0] * (LONGEST - len(row)) if padded else row} for row in rows]


def collator(pads_to: int) -> Any:
    """Pads to the longest of a batch, or to `pads_to` where that is not 0."""

    def collate(batch: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        length = pads_to or max(len(one["input_ids"]) for one in batch)
        rows = [one["input_ids"] + [0] * (length - len(one["input_ids"])) for one in batch]
        ids = torch.tensor(rows)
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": ids.masked_fill(ids == 0, -100)}

    return collate


def bootstrapped(draws: int) -> Any:
    """Metrics in Python: how often the most likely word is right, in so many draws of the samples; None without."""

    def scores(said: Any) -> dict[str, float]:
        right, drawn = (said.predictions == said.label_ids).mean(-1).tolist(), random.Random(0)
        means = [sum(drawn.choice(right) for _ in right) / len(right) for _ in range(draws)]
        return {"low": min(means), "high": max(means)}

    return scores if draws else None


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    set_up = options(
        pads_to=0, skewed=False, padded=False, grouped=False, python_items=0, python_every=1, logs_every=1000,
        evaluates_every=0, saves_every=0, sleep_ms=0.0, width=64, batch=8, accumulate=1, nan_filter=True, workers=0,
        recomputes=False, draws=0, watches=False, steps=60,
    )  # fmt: skip
    heads, feed = 4, 2 * set_up["width"]
    config = LlamaConfig(
        hidden_size=set_up["width"], intermediate_size=feed, num_hidden_layers=2, num_attention_heads=heads,
        num_key_value_heads=heads, vocab_size=512, max_position_embeddings=LONGEST,
    )  # fmt: skip
    steps, seen, model = Steps(), Samples(), LlamaForCausalLM(config)
    seen.watch(model)
    count = set_up["steps"] * set_up["batch"] * set_up["accumulate"]
    rows: Any = samples(count, set_up["skewed"], set_up["padded"])
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {
            "output_dir": folder, "num_train_epochs": 1, "per_device_train_batch_size": set_up["batch"],
            "gradient_accumulation_steps": set_up["accumulate"],
            "logging_steps": set_up["logs_every"], "logging_nan_inf_filter": set_up["nan_filter"],
            "use_cpu": place() == "cpu",
            "save_strategy": "steps" if set_up["saves_every"] else "no", "save_steps": set_up["saves_every"] or 500,
            "eval_strategy": "steps" if set_up["evaluates_every"] else "no", "report_to": [], "disable_tqdm": True,
            "eval_steps": set_up["evaluates_every"] or None, "remove_unused_columns": False,
            "gradient_checkpointing": set_up["recomputes"], "skip_memory_metrics": not set_up["watches"],
            "optim": "adamw_torch_fused", "dataloader_num_workers": set_up["workers"],
            "train_sampling_strategy": "group_by_length" if set_up["grouped"] else "random",
        }  # fmt: skip
        Trainer(
            model=model, args=TrainingArguments(**settings),
            train_dataset=Slow(rows, set_up["sleep_ms"]) if set_up["sleep_ms"] else rows,
            eval_dataset=samples(64, set_up["skewed"]), data_collator=collator(set_up["pads_to"]),
            callbacks=[Counts(steps, set_up["python_items"], set_up["python_every"])],
            compute_metrics=bootstrapped(set_up["draws"]),
            preprocess_logits_for_metrics=lambda logits, _: logits.argmax(-1),
        ).train()  # fmt: skip
    steps.report()
    seen.report()


if __name__ == "__main__":
    sys.exit(main())
