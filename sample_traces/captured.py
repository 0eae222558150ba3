"""Sample traces captured from real, small training loops on CPU: one fault injected into each, or none."""

from __future__ import annotations

import gzip
import json
import os
import socket
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from diagnose.probes import profile

TRIES = 8
STEPS = 6  # warm-up and one window, with a few to spare
WIDE = (96, 1024)  # samples, features
NARROW = (384, 512)  # as much arithmetic over a quarter of the parameters: less to reduce between ranks


class Batches(Dataset[torch.Tensor]):  # type: ignore[misc]
    """Whole batches, ready in memory; `sleep_s` stands for slow storage, `decode` for work per batch."""

    def __init__(self, shape: tuple[int, int] = WIDE, sleep_s: float = 0, decode: bool = False) -> None:
        self.sleep_s = sleep_s
        self.batch = torch.randn(shape)
        self.packed = zlib.compress(self.batch.numpy().tobytes(), 1) if decode else b""

    def __len__(self) -> int:
        return 2 * STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.sleep_s)
        if self.packed:
            return torch.frombuffer(bytearray(zlib.decompress(self.packed)), dtype=torch.float32).view(WIDE)
        return self.batch


def _layers(count: int, width: int = WIDE[1]) -> nn.Sequential:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return nn.Sequential(*(layer for _ in range(count) for layer in (nn.Linear(width, width), nn.ReLU())))


def _batches(dataset: Batches) -> Iterator[torch.Tensor]:
    yield from DataLoader(dataset, batch_size=None, num_workers=0)


def _train(model: nn.Module, dataset: Batches, out_dir: Path, extra: Callable[[], None] = lambda: None) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    with profile(out_dir, warmup=2, active=4) as steps:
        for batch in _batches(dataset):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            extra()
            steps.step()


def cpu_healthy(out_dir: Path) -> None:
    """Matrix products fill the step; the batches are ready."""
    _train(_layers(4), Batches(), out_dir)


def cpu_slow_loader(out_dir: Path) -> None:
    """Every batch waits for storage and is then unpacked by the training process: no worker does it ahead."""
    _train(_layers(4), Batches(sleep_s=0.03, decode=True), out_dir)


def cpu_python_host(out_dir: Path) -> None:
    """Python arithmetic between tiny operators takes most of the step."""
    state = torch.zeros(16)

    def bookkeeping() -> None:
        for number in range(60):
            total = sum(i * i % 7 for i in range(6000))
            state.mul_(0.9).add_(total % 3 + number)

    _train(_layers(1), Batches(), out_dir, bookkeeping)


def _rank_main(rank: int, port: int, out_dir: str, sleep_s: float) -> None:
    os.environ |= {"RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    model = DistributedDataParallel(_layers(3, NARROW[1]))
    _train(model, Batches(NARROW, sleep_s=sleep_s if rank == 1 else 0), Path(out_dir))
    distributed.destroy_process_group()


def _two_ranks(out_dir: Path, sleep_s: float) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    multiprocessing.spawn(_rank_main, (port, str(out_dir), sleep_s), nprocs=2)


def gloo_healthy(out_dir: Path) -> None:
    """Two ranks with equal work."""
    _two_ranks(out_dir, 0)


def gloo_slow_rank(out_dir: Path) -> None:
    """Two ranks; rank 1 waits for its batches and rank 0 waits for rank 1 in the gradient all-reduce."""
    _two_ranks(out_dir, 0.03)


SINGLE: dict[str, Callable[[Path], None]] = {
    "cpu-healthy": cpu_healthy,
    "cpu-slow-loader": cpu_slow_loader,
    "cpu-python-host": cpu_python_host,
}
SEVERAL: dict[str, Callable[[Path], None]] = {"gloo-healthy": gloo_healthy, "gloo-slow-rank": gloo_slow_rank}


def capture(name: str, into: Path) -> list[Path]:
    """Run the named loop `TRIES` times and put the quickest run's trace, or folder of traces, into `into`.

    Other work on the machine only ever lengthens a step, so the quickest run shows the injected fault most purely.
    """
    with tempfile.TemporaryDirectory() as temporary:
        runs = [Path(temporary) / str(number) for number in range(TRIES)]
        for run in runs:
            (SINGLE | SEVERAL)[name](run)
        written = []
        for trace in sorted(min(runs, key=_steps_us).glob("rank*.json.gz")):
            target = into / name / trace.name if name in SEVERAL else into / f"{name}.json.gz"
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(trace.read_bytes())
            written.append(target)
    return written


def _steps_us(run: Path) -> float:
    """The length of all recorded steps of all ranks of a run; of a run that left no trace, infinite."""
    traces = [json.loads(gzip.decompress(trace.read_bytes())) for trace in run.glob("rank*.json.gz")]
    events = [event for trace in traces for event in trace["traceEvents"]]
    steps = [event["dur"] for event in events if event["name"].startswith("ProfilerStep#")]
    return sum(steps) or float("inf")
