"""The bare training loop of a fault, and how long a step of it takes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch
from fault_data import loader
from fault_models import MODELS

TINY = os.environ.get("TINY") == "1"
# Counted, not tried: after `is_available` no forked process may use CUDA, and the job forks.
PLACE = "cpu" if TINY or not torch.cuda.device_count() else "cuda"
KEPT_STEPS = 20
LONGEST = 12  # times the seconds that are asked for; a loop that compiles has more


def wait() -> None:
    """Until the device has nothing left to do."""
    if PLACE == "cuda":
        torch.cuda.synchronize()


class Loop:
    """Model, optimizer and batches of a job with these options."""

    def __init__(self, o: dict[str, Any]) -> None:
        settings(o)
        self.o, self.dtype = o, torch.bfloat16 if o["dtype"] == "bf16" else torch.float32
        self.model: Any = MODELS[o["model"]](o).to(PLACE, self.dtype)
        if o["channels_last"]:
            self.model = self.model.to(memory_format=torch.channels_last)
        fused = {"fused": True} if o["optimizer"] == "fused" else {"foreach": o["optimizer"] == "foreach"}
        capturable = {"capturable": True} if o["graph"] else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, **fused, **capturable)
        self.called = torch.compile(self.model, dynamic=o["dynamic"]) if o["compiled"] else self.model
        self.loader, self.folder = loader(o, o["pins"] and PLACE == "cuda"), tempfile.mkdtemp()
        self.records: list[Any] = []
        self.kept: list[torch.Tensor] = []
        if o["tight"] and PLACE == "cuda":
            self.narrow()
        self.graph = self.graphed(next(iter(self.loader))) if o["graph"] else None

    def batches(self) -> Iterator[Any]:
        """Batches without end: from the loader, or one that stays on the device."""
        if self.o["resident"]:
            resident = self.there(next(iter(self.loader)))
            while True:
                yield resident
        while True:
            yield from self.loader

    def there(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch on the device, in the types of the model."""
        a, b = (batch["input_ids"], batch["labels"]) if isinstance(batch, dict) else batch
        pins = self.o["pins"]
        a = a.to(PLACE, self.dtype if a.is_floating_point() else None, non_blocking=pins)
        if self.o["channels_last"] and a.ndim == 4:
            a = a.contiguous(memory_format=torch.channels_last)
        return a, b.to(PLACE, non_blocking=pins)

    def both_ways(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Forward and backward."""
        loss = self.called(a, b)
        loss.backward()
        return loss

    def update(self) -> None:
        """The optimizer's step."""
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def step(self, batch: Any, number: int) -> None:
        """One step, with what the job does beside it."""
        if self.o["anomaly"]:
            torch.autograd.set_detect_anomaly(True)
        a, b = self.there(batch)
        if self.graph is not None:
            loss = self.graph(a, b)
        else:
            for _ in range(self.o["accumulate"]):
                loss = self.both_ways(a, b)
            self.update()
        self.beside(number, loss)

    def beside(self, number: int, loss: torch.Tensor) -> None:
        """What faults do at the end of each step."""
        o, parameters = self.o, list(self.model.parameters())
        if o["prints"]:
            norms = " ".join(f"{p.detach().float().norm().item():.3f}" for p in parameters[: o["prints"]])
            print(f"step {number} loss {loss.item():.4f} {norms}")
        if o["to_host"]:
            self.kept = [p.detach().cpu() for p in parameters[: o["to_host"]]]
        if o["saves"]:
            state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(state, f"{self.folder}/c.pt")
        if o["empties"] and PLACE == "cuda":
            torch.cuda.empty_cache()
        if o["objects"]:
            made = [{"n": m, "of": [number]} for m in range(o["objects"])]
            self.records = [*self.records, made][-KEPT_STEPS:]

    def narrow(self) -> None:
        """From here on the process has hardly more memory than its largest batch takes."""
        ids = torch.randint(1, self.o["vocab"], (self.o["batch"], self.o["tokens"]), device=PLACE)
        for _ in range(2):
            self.both_ways(ids, ids)
            self.update()
        most, total = torch.cuda.max_memory_allocated(), torch.cuda.get_device_properties(0).total_memory
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(min(1.3 * most / total, 1.0))

    def graphed(self, batch: Any) -> Any:
        """The whole step as one graph."""
        a, b = self.there(batch)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                self.both_ways(a, b)
                self.update()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = self.both_ways(a, b)
            self.optimizer.step()

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            a.copy_(x)
            b.copy_(y)
            graph.replay()
            return loss

        return step

    def units(self) -> int:
        """Tokens or samples of a step."""
        each = self.o["tokens"] if self.o["model"] == "gpt" and not self.o["pads"] else 1
        return self.o["batch"] * self.o["accumulate"] * each


def settings(o: dict[str, Any]) -> None:
    """What a job sets of torch before it begins."""
    torch.manual_seed(0)
    if TINY:
        torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = o["tf32"]
    torch.backends.cudnn.benchmark = o["benchmark"]


def train(o: dict[str, Any], seconds: float, least: int) -> tuple[float, int]:
    """Mean seconds of a step behind the first ones, and tokens or samples of a step."""
    loop, begun, since, counted = Loop(o), time.perf_counter(), 0.0, 0
    longest = LONGEST * seconds + 45 * o["compiled"]
    for number, batch in enumerate(loop.batches(), 1):
        loop.step(batch, number - 1)
        if not since and number >= o["warm_up"]:
            wait()
            since, counted = time.perf_counter(), number
        now, steps = time.perf_counter(), number - counted
        if (since and now - since > seconds and steps >= least) or now - begun > longest:
            wait()
            if not since or not steps:
                raise RuntimeError(f"{number} steps in {now - begun:.0f} s")
            return (time.perf_counter() - since) / steps, loop.units()
    raise AssertionError("batches end")
