"""A bare loop of many small layers: another optimizer, a hook in Python, a log of objects, evaluations, checks,
collections that it asks for, memory that Python follows, groups of the optimizer, rows in another order, and kept
outputs.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections import deque
from typing import Any

import torch
from timing import Steps, options, place
from torch import nn

HELD_OUT = 16  # batches


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    set_up = options(
        optimizer="AdamW", form="fused", width=256, layers=12, rows=512, hook_items=0, records=0, collects=True,
        evaluates_every=0, checks=False, joins=False, asks=False, follows=False, groups=False, permutes=0,
        steps=60,
    )  # fmt: skip
    torch.autograd.set_detect_anomaly(set_up["checks"])
    log: deque[list[list[int]]] = deque(maxlen=20)
    if set_up["follows"]:
        tracemalloc.start(25)
    if not set_up["collects"]:
        gc.freeze()
        gc.disable()
    model = nn.Sequential(*(nn.Linear(set_up["width"], set_up["width"]) for _ in range(set_up["layers"])))
    model.to(place())
    form = {"foreach": False} if set_up["form"] == "loop" else {set_up["form"]: True}
    apart: Any = [{"params": [each]} for each in model.parameters()] if set_up["groups"] else model.parameters()
    optimizer = getattr(torch.optim, set_up["optimizer"])(apart, lr=1e-3, **form)
    seen: dict[str, float] = {}
    kept, outputs = [], torch.empty(0, set_up["width"], device=place())

    def watch(module: nn.Module, _inputs: Any, output: torch.Tensor) -> None:
        values = output[0].tolist()
        for _ in range(set_up["hook_items"]):
            seen[str(id(module))] = sum(value * value for value in values)

    if set_up["hook_items"]:
        for layer in model:
            layer.register_forward_hook(watch)
    held_out = [torch.randn(set_up["rows"], set_up["width"], device=place()) for _ in range(HELD_OUT)]

    def evaluate() -> float:
        model.eval()
        with torch.no_grad():
            loss = sum(model(batch).square().mean().item() for batch in held_out)
        model.train()
        return loss / HELD_OUT

    steps = Steps()
    for number in range(1, set_up["steps"] + 1):
        rows = torch.randn(set_up["rows"], set_up["width"], device=place())
        if set_up["permutes"]:
            rows = rows[torch.randperm(set_up["permutes"])[: set_up["rows"]] % set_up["rows"]]
        output = model(rows)
        output.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if set_up["evaluates_every"] and number % set_up["evaluates_every"] == 0:
            print(f"step {number} held-out loss {evaluate():.4f}")
        if set_up["joins"]:
            outputs = torch.cat([outputs, output.detach()])
        else:
            kept.append(output.detach()[:1])
        log.append([[number] for number in range(set_up["records"])])
        if set_up["asks"]:
            gc.collect()
        steps.ended()
    steps.report()


if __name__ == "__main__":
    main()
