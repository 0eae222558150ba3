"""Preference training with TRL's DPOTrainer on a small Llama; the tokenizer and the answers are made up."""

from __future__ import annotations

import random
import tempfile
from typing import Any

import torch
from datasets import Dataset
from timing import Samples, Steps, options, place
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import DPOConfig, DPOTrainer

WORDS = [f"w{number}" for number in range(500)]


class Counts(TrainerCallback):
    """Tells the times of steps."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step has ended."""
        self._steps.ended()


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each word."""
    known = {word: at for at, word in enumerate(["<pad>", "<eos>", *WORDS])}
    made = Tokenizer(models.WordLevel(known, unk_token="<eos>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")


def pairs(count: int, skewed: bool) -> Dataset:
    """Prompts with a chosen and a rejected answer, of one length or of which few are long."""
    drawn = random.Random(0)

    def said() -> str:
        return " ".join(drawn.choices(WORDS, k=min(int(4 + drawn.expovariate(1 / 24)), 160) if skewed else 16))

    prompts = (" ".join(drawn.choices(WORDS, k=6)) for _ in range(count))
    return Dataset.from_list([{"prompt": prompt, "chosen": said(), "rejected": said()} for prompt in prompts])


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    set_up = options(batch=1, accumulate=8, skewed=False, by_length=False, width=64, steps=24)
    config = LlamaConfig(
        hidden_size=set_up["width"], intermediate_size=2 * set_up["width"], num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, vocab_size=512, max_position_embeddings=256,
    )  # fmt: skip
    data = pairs(set_up["steps"] * set_up["batch"] * set_up["accumulate"], set_up["skewed"])
    if set_up["by_length"]:
        order = sorted(range(len(data)), key=lambda at: max(len(data[at]["chosen"]), len(data[at]["rejected"])))
        data = data.select(order)
    steps, seen = Steps(), Samples()
    with tempfile.TemporaryDirectory() as folder:
        arguments = DPOConfig(
            output_dir=folder, num_train_epochs=1, per_device_train_batch_size=set_up["batch"],
            gradient_accumulation_steps=set_up["accumulate"], save_strategy="no", logging_strategy="no", report_to=[],
            disable_tqdm=True, use_cpu=place() == "cpu", bf16=False, gradient_checkpointing=False,
            optim="adamw_torch_fused",
            train_sampling_strategy="sequential" if set_up["by_length"] else "random",
        )  # fmt: skip
        LlamaForCausalLM(config).save_pretrained(f"{folder}/model")
        trainer = DPOTrainer(
            model=f"{folder}/model", args=arguments, train_dataset=data, processing_class=tokenizer(),
            callbacks=[Counts(steps)],
        )  # fmt: skip
        seen.watch(trainer.model)
        trainer.train()
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
