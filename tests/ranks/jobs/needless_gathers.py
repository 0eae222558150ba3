"""Eight forward passes without gradients before each update of a model that two ranks shard; --fixed gathers once."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

KIND, FIXED, WIDTH = sys.argv[1], "--fixed" in sys.argv, 256

dist.init_process_group("gloo")
torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)])
if KIND == "fully_shard":
    mesh = init_device_mesh("cpu", (2,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
elif KIND == "fsdp":
    wrapped = ModuleWrapPolicy({nn.Linear})
    strategy = ShardingStrategy.SHARD_GRAD_OP if FIXED else ShardingStrategy.FULL_SHARD
    model = FullyShardedDataParallel(
        model, sharding_strategy=strategy, device_id=torch.device("cpu"), auto_wrap_policy=wrapped
    )
optimizer = torch.optim.SGD(model.parameters(), 1e-3)


def keep(parameters: bool) -> None:
    """Keep what is gathered, or free it."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_reshard_after_forward(not parameters, recurse=False)
            if not parameters:
                module.reshard()


def evaluate() -> None:
    with torch.no_grad():
        for _ in range(8):
            model(torch.randn(4, WIDTH))


for _ in range(24):
    if FIXED:
        keep(True)
    evaluate()
    if FIXED:
        keep(False)
    model(torch.randn(4, WIDTH)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
