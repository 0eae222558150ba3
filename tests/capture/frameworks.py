"""Scripts of other frameworks, run as those of `scripts`: with the real package, or with its calls in their order."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from capture.scripts import HOOKS

_IN_ORDER = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import {{}}\n"


def real_and_in_order(package: str, stand_in: str) -> list[object]:
    """What a script begins with: nothing for the real package, else the import of its stand-in."""
    reason = f"needs {package}"
    real = [pytest.mark.compat, pytest.mark.skipif(find_spec(package) is None, reason=reason)]
    return [pytest.param("", marks=real, id=package), pytest.param(_IN_ORDER.format(stand_in), id="calls in order")]


LIGHTNING = (
    HOOKS
    + """
import sys
import warnings
warnings.filterwarnings("ignore")
from torch import nn
import lightning.pytorch as pl
from diagnose.probes.trainers import lightning_trainer
lightning_trainer.install()
class Plain(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 1))
    def training_step(self, batch, number):
        return self.net(batch[0]).square().mean()
    def validation_step(self, batch, number):
        self.log("loss", self.net(batch[0]).square().mean())
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
class Adversarial(Plain):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.other = nn.Linear(8, 1)
    def training_step(self, batch, number):
        for optimizer, net in zip(self.optimizers(), (self.net, self.other)):
            self.manual_backward(net(batch[0]).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    def configure_optimizers(self):
        return [torch.optim.AdamW(self.net.parameters()), torch.optim.SGD(self.other.parameters(), lr=0.1)]
def loader(batches):
    data = torch.utils.data.TensorDataset(torch.randn(2 * batches, 8))
    return torch.utils.data.DataLoader(data, batch_size=2)
def trainer(**more):
    settings = dict(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                    default_root_dir=sys.argv[1], enable_checkpointing=False, max_epochs=1)
    return pl.Trainer(**settings | more)
"""
)

DEEPSPEED = (
    HOOKS
    + """
import os
import sys
import warnings
warnings.filterwarnings("ignore")
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", DS_ACCELERATOR="cpu")
torch.distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=0, world_size=1)
import deepspeed
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # which would be compiled, for minutes
from diagnose.probes.trainers import deepspeed_engine
deepspeed_engine.install()
from torch import nn
config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3, "steps_per_print": 1000,
          "zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": True, "bf16": {"enabled": True}}
def engine(**more):
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 1))
    groups = [{"params": [parameter]} for parameter in model.parameters()]
    return deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups), config=config | more)[0]
def loader(batches):
    data = torch.utils.data.TensorDataset(torch.randn(2 * batches, 8, dtype=torch.bfloat16))
    return torch.utils.data.DataLoader(data, batch_size=2)
def loop(engine, batches):
    for (batch,) in loader(batches):
        engine.backward(engine(batch).square().mean())
        engine.step()
"""
)

TRAINER_ON_DEEPSPEED = (
    DEEPSPEED
    + """
from transformers import Trainer, TrainingArguments
from diagnose.probes.trainers import transformers_trainer
transformers_trainer.install()
class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 1)
    def forward(self, x):
        return {"loss": self.net(x).square().mean()}
def trainer(steps):
    made = dict(config, gradient_accumulation_steps="auto", train_micro_batch_size_per_gpu="auto")
    settings = dict(output_dir=sys.argv[1], max_steps=steps, per_device_train_batch_size=2, bf16=True, report_to=[],
                    gradient_accumulation_steps=3, disable_tqdm=True, save_strategy="no", use_cpu=True, deepspeed=made)
    rows = [{"x": row} for row in torch.randn(400, 8, dtype=torch.bfloat16)]
    model = Regression()
    optimizer = torch.optim.AdamW([{"params": [parameter]} for parameter in model.parameters()])
    return Trainer(model, TrainingArguments(**settings), train_dataset=rows, optimizers=(optimizer, None))
"""
)

TRL = (
    HOOKS
    + """
import sys
import warnings
warnings.filterwarnings("ignore")
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from diagnose.probes.trainers import transformers_trainer
transformers_trainer.install()
words = {word: at for at, word in enumerate(["<pad>", "<eos>", *"abcdefghijklmnopqrstuvwxyz"])}
split = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
split.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=split, pad_token="<pad>", eos_token="<eos>")
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, intermediate_size=32,
    vocab_size=len(words), pad_token_id=0, eos_token_id=1, bos_token_id=1))
path = sys.argv[1] + "/model"  # the reference model is loaded from where the model is
model.save_pretrained(path)
settings = dict(output_dir=sys.argv[1], max_steps=18, report_to=[], disable_tqdm=True, save_strategy="no", use_cpu=True,
                bf16=False, gradient_checkpointing=False, logging_steps=2)
"""
)

GRPO = (
    TRL
    + """
from trl import GRPOConfig, GRPOTrainer
def reward(completions, **more):
    return [float(len(text)) for text in completions]
prompts = Dataset.from_list([{"prompt": "a b c"}, {"prompt": "d e f"}] * 40)
def trainer(**more):
    asked = dict(num_generations=2, per_device_train_batch_size=2, max_completion_length=6, beta=0.1)
    return GRPOTrainer(path, reward, args=GRPOConfig(**settings | asked | more), train_dataset=prompts,
                       processing_class=tokenizer)
"""
)

SFT = (
    TRL
    + """
from trl import SFTConfig, SFTTrainer
rows = Dataset.from_list([{"text": "a b c d e f"}] * 80)
def trainer():
    asked = SFTConfig(**settings, per_device_train_batch_size=2, gradient_accumulation_steps=2)
    return SFTTrainer(model, args=asked, train_dataset=rows, processing_class=tokenizer)
"""
)

DPO = (
    TRL
    + """
from trl import DPOConfig, DPOTrainer
rows = Dataset.from_list([{"prompt": "a b ", "chosen": "c d", "rejected": "e f"}] * 80)
def trainer():
    asked = DPOConfig(**settings, per_device_train_batch_size=2, gradient_accumulation_steps=2)
    return DPOTrainer(path, args=asked, train_dataset=rows, processing_class=tokenizer)
"""
)
