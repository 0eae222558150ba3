"""A bare loop whose loader is slow as asked, or streams; under torchrun with DDP.

Samples sleep, as on a slow disk, all or few of them, or compute, as when they are decoded, or are lists of numbers;
workers start slowly or share one core.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

import torch
from timing import Samples, Steps, options, place
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

BATCH, FEATURES = 8, 256
STALLS = 0.02  # of the samples


class Rows(Dataset[Any]):
    """Each sample sleeps or computes for some milliseconds, once where samples are kept; few stall for longer."""

    def __init__(
        self, count: int, sleep_ms: float, compute_ms: float, keeps: bool = False, stall_ms: float = 0.0
    ) -> None:
        self._count, self._sleep_s, self._compute_s = count, sleep_ms / 1e3, compute_ms / 1e3
        drawn = random.Random(0)
        self._stalls_s = {at: stall_ms / 1e3 for at in range(count) if drawn.random() < STALLS}
        self._kept: dict[int, torch.Tensor] | None = {} if keeps else None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: int) -> torch.Tensor:
        if self._kept is None:
            return self.read(at)
        if at not in self._kept:
            self._kept[at] = self.read(at)
        return self._kept[at]

    def read(self, at: int) -> torch.Tensor:
        """One sample."""
        time.sleep(self._sleep_s + self._stalls_s.get(at, 0.0))
        until = time.process_time() + self._compute_s
        while time.process_time() < until:
            pass
        return torch.full((FEATURES,), at / self._count)


class Stream(IterableDataset[Any]):
    """The samples in their order, which each worker would repeat."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (self._rows[at] for at in range(len(self._rows)))


class SplitStream(Stream):
    """The same, of which each worker gives a part."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        first, apart = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return (self._rows[at] for at in range(first, len(self._rows), apart))


def shards(rows: Rows, count: int) -> Any:
    """The samples as a stream of Hugging Face datasets, from so many files."""
    from datasets import IterableDataset as Shards

    def read(files: list[int]) -> Iterator[dict[str, torch.Tensor]]:
        for file in files:
            for at in range(file, len(rows), count):
                yield {"row": rows[at]}

    return Shards.from_generator(read, gen_kwargs={"files": list(range(count))}).with_format("torch")


def rows_of(batch: Any) -> torch.Tensor:
    """The tensor of a batch, which has a name in Hugging Face datasets."""
    rows: torch.Tensor = batch["row"] if isinstance(batch, dict) else batch
    return rows[:, :FEATURES]


def of_lists(numbers: int) -> Any:
    """A collator that makes the batch of lists of so many numbers; None without, which stacks the tensors."""

    def collate(samples: list[torch.Tensor]) -> torch.Tensor:
        return torch.tensor([sample.tolist() * (numbers // FEATURES) for sample in samples])

    return collate if numbers else None


def started(set_up: dict[str, Any]) -> Any:
    """What a worker does first: import and open, or bind itself as a library may do."""

    def start(_worker: int) -> None:
        if set_up["binds"]:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        time.sleep(set_up["start_s"])

    return start


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    set_up = options(
        sleep_ms=4.0, compute_ms=0.0, keeps=False, workers=0, start_s=0.0, binds=False, persists=False, streams="",
        stall_ms=0.0, lists=0, prefetches=0, host_ms=0.0, layers=6, rows=128, torch_optimizer=True, leaves=False,
        counts=True, epochs=1, steps=50,
    )  # fmt: skip
    rank = int(os.environ.get("RANK", "0"))
    there = "cpu" if "RANK" in os.environ else place()  # ranks share what there is, over gloo
    model: nn.Module = nn.Sequential(*(nn.Linear(FEATURES, FEATURES) for _ in range(set_up["layers"]))).to(there)
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        model = DistributedDataParallel(model)
    rows = Rows(BATCH * set_up["steps"], set_up["sleep_ms"], set_up["compute_ms"], set_up["keeps"], set_up["stall_ms"])
    streams = set_up["streams"]
    data: Any = {"plain": Stream, "split": SplitStream}.get(streams, lambda whole: whole)(rows)
    loader = DataLoader(
        shards(rows, 4) if streams == "shards" else data, batch_size=BATCH, num_workers=set_up["workers"],
        worker_init_fn=started(set_up), persistent_workers=set_up["persists"] and set_up["workers"] > 0,
        prefetch_factor=set_up["prefetches"] or None, collate_fn=of_lists(set_up["lists"]),
    )  # fmt: skip
    optimizer, steps, seen = torch.optim.AdamW(model.parameters()), Steps(), Samples()
    for _ in range(set_up["epochs"]):
        first_of_each = (next(iter(loader)) for _ in loader.batch_sampler) if set_up["leaves"] else loader
        for batch in map(rows_of, first_of_each):
            if set_up["counts"]:
                seen.saw(batch)
            model(batch.to(there).repeat(set_up["rows"] // BATCH, 1)).square().mean().backward()
            if rank == 1:
                until = time.perf_counter() + set_up["host_ms"] / 1e3
                while time.perf_counter() < until:
                    sorted(range(100), key=lambda number: -number)
            if set_up["torch_optimizer"]:
                optimizer.step()
                optimizer.zero_grad()
            else:
                with torch.no_grad():
                    for weight in model.parameters():
                        weight.data.add_(weight.grad, alpha=-1e-3)
                        weight.grad = None
            steps.ended()
    steps.report()
    seen.report()
    if "RANK" in os.environ:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
