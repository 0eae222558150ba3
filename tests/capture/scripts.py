"""Training scripts that the tests run as a job would: in a process of their own, hooks installed at the top."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from capture import forks

from diagnose.patch.patch_file import Request
from diagnose.probes.protocol import PATCH

PATIENCE_S = 300  # longer than any busy machine needs
HOOKS = f"""
import torch
import diagnose.probes.session
from diagnose.probes.hooks import torch_hooks
from diagnose.probes.trainers import transformers_trainer
diagnose.probes.session.PATIENCE_S = {PATIENCE_S}  # no phase is longer where a busy machine writes a trace slowly
torch_hooks.install()
torch.manual_seed(0)
torch.set_num_threads(1)
"""

TRAINER = (
    HOOKS
    + """
import sys
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
transformers_trainer.install()
config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                     intermediate_size=32, vocab_size=64, attention_dropout=0.1)
model = LlamaForCausalLM(config)
ids = torch.randint(0, 64, (120, 8))
mask = torch.tensor([1] * 6 + [0] * 2)
data = [{"input_ids": row, "labels": row, "attention_mask": mask} for row in ids]
class Own(Trainer):
    def training_step(self, *args, **kwargs):
        return super().training_step(*args, **kwargs)
    def compute_loss(self, *args, **kwargs):
        during(self.state.global_step)
        return super().compute_loss(*args, **kwargs)
def during(step):
    pass
def trainer(kind=Own, out=sys.argv[1], **more):
    settings = dict(output_dir=out, max_steps=24, per_device_train_batch_size=2, gradient_accumulation_steps=2,
                    logging_steps=2, save_steps=13, report_to=[], disable_tqdm=True, use_cpu=True) | more
    return kind(model=model, args=TrainingArguments(**settings), train_dataset=data)
def finish():
    torch.save(model.state_dict(), sys.argv[1] + "/final.pt")
"""
)

BARE = (
    HOOKS
    + """
import sys
from torch import nn
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 1))
def loader(steps, **more):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(2 * steps, 8)), batch_size=2, **more)
optimizer = torch.optim.AdamW(model.parameters())
def during(number):
    pass
def loop(steps=30):
    for number, (batch,) in enumerate(loader(steps), 1):
        model(batch).square().mean().backward()
        during(number)
        optimizer.step()
        optimizer.zero_grad()
def finish():
    torch.save(model.state_dict(), sys.argv[1] + "/final.pt")
"""
)


def run(
    script: str,
    folder: Path,
    window: dict[str, object] | None = None,
    *,
    patch: dict[str, dict[str, object]] | None = None,
    fresh: bool | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run `script` with `folder` as its argument; `window` None leaves it uncaptured.

    The bundle is folder/out, of three steps unless `window` says otherwise.

    `patch` is what `diagnose run --apply` hands over: values by target and key.

    A fork of an interpreter that imported torch runs it, for speed. A `fresh` one runs it when asked for, and where
    variables of its own may count while Python or torch starts: with any, unless `fresh` is False.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "script.py"
    file.write_text(script)
    variables = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    variables.pop("PYTHON_DIAGNOSE", None)
    if window is not None:
        variables["PYTHON_DIAGNOSE"] = json.dumps({"out": str(folder / "out"), "steps": 3} | window)
    if patch is not None:
        variables[PATCH] = Request(patch).to_json()
    if not (bool(environment) if fresh is None else fresh):
        return forks.run(file, variables, PATIENCE_S)
    command = [sys.executable, str(file), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=False, timeout=PATIENCE_S)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of the probe on stderr."""
    return [line for line in done.stderr.splitlines() if line.startswith("diagnose:")]
