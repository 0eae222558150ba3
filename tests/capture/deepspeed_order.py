"""A stand-in for DeepSpeed 0.19 where it is not installed: the calls of its steps in their order, and no more."""

import sys
from types import ModuleType, SimpleNamespace

import torch


class DeepSpeedEngine(torch.nn.Module):
    """One optimizer's step for each group of parameters at the accumulation boundary, as ZeRO stages 1 to 3 do."""

    def __init__(self, module, optimizer, config):
        super().__init__()
        self.module, self.basic_optimizer, self.config = module, optimizer, config
        self.global_steps = self.micro_steps = 0
        self._boundary = None

    def forward(self, *inputs):
        return self.module(*inputs)

    def backward(self, loss):
        loss.backward()

    def set_gradient_accumulation_boundary(self, is_boundary):
        self._boundary = is_boundary

    def is_gradient_accumulation_boundary(self):
        at = (self.micro_steps + 1) % self.gradient_accumulation_steps() == 0
        return at if self._boundary is None else self._boundary

    def _take_model_step(self):
        groups = self.basic_optimizer.param_groups
        for group in groups:
            self.basic_optimizer.param_groups = [group]
            self.basic_optimizer.step()
        self.basic_optimizer.param_groups = groups
        self.basic_optimizer.zero_grad()
        self.global_steps += 1

    def step(self):
        if self.is_gradient_accumulation_boundary():
            self._take_model_step()
        self.micro_steps += 1

    def save_checkpoint(self, folder):
        torch.save(self.module.state_dict(), folder)

    def gradient_accumulation_steps(self):
        return self.config["gradient_accumulation_steps"]

    def train_micro_batch_size_per_gpu(self):
        return self.config["train_micro_batch_size_per_gpu"]

    def bfloat16_enabled(self):
        return self.config["bf16"]["enabled"]

    def fp16_enabled(self):
        return False


class PipelineEngine(DeepSpeedEngine):
    """All micro-batches and the update in one call."""

    def train_batch(self, batches):
        for _ in range(self.gradient_accumulation_steps()):
            self._exec_backward_pass(self._exec_forward_pass(self._exec_load_micro_batch(batches)))
        self._exec_optimizer_step()

    def _exec_load_micro_batch(self, batches):
        return next(batches)

    def _exec_forward_pass(self, batch):
        return self.module(*batch).square().mean()

    def _exec_backward_pass(self, loss):
        loss.backward()

    def _exec_optimizer_step(self):
        self._take_model_step()

    def eval_batch(self, batches):
        return self._exec_forward_pass(next(batches))


def initialize(model, optimizer, config, kind=DeepSpeedEngine):
    return [kind(model.to(torch.bfloat16), optimizer, config)]


def _module(name, **content):
    made = sys.modules[name] = ModuleType(name)
    vars(made).update(content)


_module("deepspeed.runtime.engine", DeepSpeedEngine=DeepSpeedEngine)
_module("deepspeed.runtime.pipe.engine", PipelineEngine=PipelineEngine)
_module("deepspeed", initialize=initialize, ops=SimpleNamespace(__compatible_ops__={}))
