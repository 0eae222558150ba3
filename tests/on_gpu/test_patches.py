"""Patches that only a GPU takes: each runs as `diagnose run --apply` would, and the job trains."""

from pathlib import Path

import pytest
from needs import needs
from on_gpu.jobs import ran, record

needs("torch")
pytestmark = pytest.mark.gpu

BARE = """
import torch
class Model(torch.nn.Sequential):
    def forward(self, x):
        return self[1](self[0](x).relu())
model = Model(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(400, 64))
loader = torch.utils.data.DataLoader(data, batch_size=8)
for (batch,) in loader:
    model(batch.to("cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained", torch.isfinite(model[0].weight).all().item())
"""
TRAINER = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
config = LlamaConfig(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                     intermediate_size=512, vocab_size=512)
model = LlamaForCausalLM(config)
ids = torch.randint(0, 512, (400, 64))
data = [{"input_ids": row, "labels": row} for row in ids]
arguments = TrainingArguments(output_dir="t", max_steps=30, per_device_train_batch_size=4, report_to=[],
                              disable_tqdm=True, save_strategy="no")
Trainer(model=model, args=arguments, train_dataset=data).train()
print("trained", torch.isfinite(model.lm_head.weight).all().item())
"""


def trains(folder: Path, start: str, patch: dict[str, dict[str, object]]) -> None:
    """The job trains with the whole patch."""
    done = ran(folder, "", "--no-report", patch=patch, start=start)

    assert done.returncode == 0, done.stderr
    assert "trained True" in done.stdout
    assert (record(folder)["applied"], record(folder)["refused"]) == (patch, [])


@pytest.mark.parametrize(
    "patch",
    [
        {"optimizer": {"fused": True}},
        {"dataloader": {"pin_memory": True, "num_workers": 2}},
        {"torch": {"float32_matmul_precision": "high"}},
        {"torch": {"cudnn_benchmark": True}},
        {"torch": {"compile": True}},
    ],
    ids=lambda patch: "-".join(key for keys in patch.values() for key in keys),
)
def test_a_bare_loop_trains_with_the_patch(patch: dict[str, dict[str, object]], tmp_path: Path) -> None:
    trains(tmp_path, BARE, patch)


@pytest.mark.parametrize(
    "arguments",
    [{"bf16": True}, {"tf32": True}, {"optim": "adamw_torch_fused"}, {"torch_compile": True}],
    ids=lambda arguments: next(iter(arguments)),
)
def test_a_trainer_trains_with_the_patch(arguments: dict[str, object], tmp_path: Path) -> None:
    needs("transformers", "accelerate")
    trains(tmp_path, TRAINER, {"training_arguments": arguments})


def test_liger_takes_the_place_of_a_models_own_layers(tmp_path: Path) -> None:
    needs("transformers", "accelerate", "liger_kernel")
    trains(tmp_path, TRAINER, {"training_arguments": {"use_liger_kernel": True}})

    assert record(tmp_path)["liger"] == {"asked": True, "loaded": True}
