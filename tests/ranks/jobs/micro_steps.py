"""Four micro-batches for each update, on two ranks over gloo; each reduces its gradients unless --fixed is given."""

import sys
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

KIND, FIXED, MICRO_STEPS, WIDTH = sys.argv[1], "--fixed" in sys.argv, 4, 512

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)])
if KIND == "accelerate":
    from accelerate import Accelerator
    from accelerate.utils import GradientAccumulationPlugin

    plugin = GradientAccumulationPlugin(num_steps=MICRO_STEPS, sync_each_batch=not FIXED)
    accelerator = Accelerator(cpu=True, gradient_accumulation_plugin=plugin)
else:
    dist.init_process_group("gloo")
if KIND.endswith("fully_shard"):
    sizes = (2, 1) if KIND == "hybrid_fully_shard" else (2,)
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("replicas", "shards")[: len(sizes)])
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
elif KIND == "fsdp":
    wrapped = ModuleWrapPolicy({nn.Linear})
    model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), auto_wrap_policy=wrapped)
elif KIND.startswith("ddp"):
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=KIND == "ddp_views")
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
if KIND == "accelerate":
    model, optimizer = accelerator.prepare(model, optimizer)


def synchronised(last: bool) -> AbstractContextManager[object]:
    """Set whether this micro-step reduces its gradients."""
    if KIND == "accelerate":
        return accelerator.accumulate(model)
    if KIND == "fully_shard":
        model.set_requires_gradient_sync(last or not FIXED)
    elif KIND == "hybrid_fully_shard":
        model.set_requires_all_reduce(last or not FIXED)
    elif FIXED and not last:
        return model.no_sync()
    return nullcontext()


for _ in range(24):
    for number in range(MICRO_STEPS):
        with synchronised(number == MICRO_STEPS - 1):
            loss = model(torch.randn(8, WIDTH)).square().mean() / MICRO_STEPS
            accelerator.backward(loss) if KIND == "accelerate" else loss.backward()
            if KIND == "accelerate":
                optimizer.step()
                optimizer.zero_grad()
    if KIND != "accelerate":
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
