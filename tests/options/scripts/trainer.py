"""A job of transformers' Trainer, of which most tokens are padding; it prints the losses that it logs.

With `--half` its products are in fp16, and nothing is padded.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from diagnose.probes.reporting import analysis, report

report.AT_THE_END_S = 300.0  # on a busy machine the analysis takes longer than this short training
analysis._PROGRAM = analysis._PROGRAM.replace("nice(19)", "nice(0)")
torch.manual_seed(0)
torch.set_num_threads(1)
HALF = "--half" in sys.argv
config = LlamaConfig(
    hidden_size=128 if HALF else 16,  # the profiler distorts the steps of a small one
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    intermediate_size=256 if HALF else 32,
    vocab_size=64,
)
lengths = [64] * 80 if HALF else [8, 8, 8, 192] * 20
samples = [{"input_ids": row, "labels": row} for row in (torch.randint(0, 64, (length,)) for length in lengths)]


def padded(batch):
    """The samples as long as the longest of them."""
    rows = {name: [sample[name] for sample in batch] for name in ("input_ids", "labels")}
    fill = {"input_ids": 0, "labels": -100}
    made = {
        name: torch.nn.utils.rnn.pad_sequence(row, batch_first=True, padding_value=fill[name])
        for name, row in rows.items()
    }
    return made | {"attention_mask": (made["labels"] != -100).long()}


class Says(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **more):
        for name in sorted(logs or {}):
            if name == "loss" or name.startswith("diagnose/"):
                print(state.global_step, name, logs[name] if name == "loss" else "")


arguments = TrainingArguments(
    output_dir="trained", max_steps=20, per_device_train_batch_size=4, logging_steps=5, save_strategy="no",
    report_to=[], disable_tqdm=True, use_cpu=True,
)  # fmt: skip
model = LlamaForCausalLM(config)
if HALF:
    model.forward = torch.autocast("cpu", dtype=torch.float16)(model.forward)
trainer = Trainer(model, arguments, train_dataset=samples, data_collator=padded, callbacks=[Says()])
trainer.remove_callback(PrinterCallback)  # which prints how long it took
trainer.train()
