"""A causal language model of a public shape under transformers' Trainer, its weights random and its tokens too.

python causal_lm.py                                            # Llama-3.2-1B in fp32 with eager attention
python causal_lm.py model=opt-1.3b liger=true
python causal_lm.py model=tiny words=4000 steps=40             # on a CPU, with texts that a collator tokenises
"""

from __future__ import annotations

import random
import sys
import tempfile
from typing import Any

import torch
from timing import Steps, options
from transformers import AutoModelForCausalLM, LlamaConfig, OPTConfig, Trainer, TrainerCallback, TrainingArguments

KNOWN_WORDS = 2000
LLAMA = {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": True,
}  # fmt: skip
OPT = {
    "hidden_size": 2048, "ffn_dim": 8192, "num_hidden_layers": 24, "num_attention_heads": 32, "vocab_size": 50272,
    "word_embed_proj_dim": 2048,
}  # fmt: skip
SMALL = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512,
}  # fmt: skip


class Counts(TrainerCallback):
    """Tells the times of steps."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step has ended."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._steps.ended()


def config_of(model: str, length: int) -> Any:
    """The configuration of the shape, for sequences of that length."""
    if model == "opt-1.3b":
        return OPTConfig(**OPT, max_position_embeddings=length)
    return LlamaConfig(**{"llama-3.2-1b": LLAMA, "tiny": SMALL}[model], max_position_embeddings=length)


def samples(count: int, words: int, vocabulary: int, length: int) -> list[dict[str, Any]]:
    """Random ids, or where `words` is not 0 texts of so many, from a small pool: no kernel tells what repeats."""
    drawn = random.Random(0)
    known = ["".join(drawn.choices("abcdefgh", k=drawn.randint(2, 9))) for _ in range(KNOWN_WORDS)]
    pool = [
        {"text": " ".join(drawn.choices(known, k=words))}
        if words
        else {"input_ids": torch.randint(1, vocabulary, (length,))}
        for _ in range(64)
    ]
    return [pool[number % len(pool)] for number in range(count)]


def collator(length: int) -> Any:
    """Makes a batch of ids of one length, from texts by byte pairs learnt from some."""
    tokenizer: Any = None

    def encoded(text: str) -> Any:
        ids = tokenizer.encode(text).ids[:length]
        return torch.tensor(ids + [1] * (length - len(ids)))

    def collate(batch: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        nonlocal tokenizer
        if tokenizer is None and "text" in batch[0]:
            tokenizer = _tokenizer([one["text"] for one in batch])
        ids = torch.stack([encoded(one["text"]) if "text" in one else one["input_ids"] for one in batch])
        return {"input_ids": ids, "labels": ids}

    return collate


def _tokenizer(texts: list[str]) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=500, special_tokens=["[UNK]"]))
    return made


def main() -> None:
    """Train."""
    set_up = options(
        model="llama-3.2-1b", batch=6, accumulate=1, length=1024, precision="fp32", mixed="no", attention="eager",
        liger=False, compiles=False, checkpoints=False, words=0, steps=200,
    )  # fmt: skip
    on_gpu = torch.cuda.is_available()
    config = config_of(set_up["model"], set_up["length"])
    config.use_cache = False
    with torch.device("cuda" if on_gpu else "cpu"):
        dtype = torch.bfloat16 if set_up["precision"] == "bf16" else torch.float32
        model = AutoModelForCausalLM.from_config(config, attn_implementation=set_up["attention"], dtype=dtype)
    count, steps = set_up["steps"] * set_up["batch"] * set_up["accumulate"], Steps()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=set_up["steps"], per_device_train_batch_size=set_up["batch"],
            gradient_accumulation_steps=set_up["accumulate"], bf16=set_up["mixed"] == "bf16",
            tf32=True if on_gpu and set_up["precision"] == "fp32" else None, optim="adamw_torch",
            use_liger_kernel=set_up["liger"], torch_compile=set_up["compiles"],
            gradient_checkpointing=set_up["checkpoints"], save_strategy="no", logging_strategy="no", report_to=[],
            disable_tqdm=True, use_cpu=not on_gpu, remove_unused_columns=False,
        )  # fmt: skip
        data = samples(count, set_up["words"], config.vocab_size, set_up["length"])
        Trainer(
            model=model, args=arguments, train_dataset=data, data_collator=collator(set_up["length"]),
            callbacks=[Counts(steps)],
        ).train()  # fmt: skip
    steps.report()


if __name__ == "__main__":
    sys.exit(main())
