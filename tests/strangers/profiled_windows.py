"""A small job that profiles itself as tutorials and trainers do: `schedule(repeat=2)` and unmodified handlers.

Arguments: number of ranks, folder for the traces, address of a file for the ranks to meet. In the folder are then
`handler/`, `named/` and `iterations/`, each with two windows of each rank, and `cut/`, in whose third window the
training ends.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler


def in_iterations(folder: Path, rank: int) -> Callable[[profile], None]:
    """The handler of torchtitan: a folder for each window."""

    def export(profiler: profile) -> None:
        place = folder / f"iteration_{profiler.step_num}"
        place.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(place / f"rank{rank}_trace.json"))

    return export


def train(rank: int, ranks: int, folder: str, meeting: str) -> None:
    torch.set_num_threads(1)
    model: torch.nn.Module = torch.nn.Linear(16, 4)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    handlers = (
        (tensorboard_trace_handler(f"{folder}/handler"), 2, 9),
        (tensorboard_trace_handler(f"{folder}/named", worker_name=f"rank{rank}", use_gzip=True), 2, 9),
        (in_iterations(Path(folder, "iterations"), rank), 2, 9),
        (tensorboard_trace_handler(f"{folder}/cut"), 0, 10),
    )
    for handler, repeat, steps in handlers:
        windows = schedule(wait=1, warmup=1, active=2, repeat=repeat)
        with profile(activities=[ProfilerActivity.CPU], schedule=windows, on_trace_ready=handler) as profiler:
            for _ in range(steps):
                model(torch.randn(8, 16)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                profiler.step()
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    torch.multiprocessing.spawn(train, (ranks, *sys.argv[2:]), nprocs=ranks)
