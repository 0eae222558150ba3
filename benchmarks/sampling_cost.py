"""What sampling the stack costs a training step: the same loop with and without it, in blocks that take turns.

    python benchmarks/sampling_cost.py
    python benchmarks/sampling_cost.py --rounds 40 --write benchmarks/reports     # a dated report there

Two bare loops, 60 frames deep as under a Trainer: small steps of operators, where the sampler finds the interpreter
free, and steps of 50 ms in Python alone, where it has to ask for it. A block lasts one second. Ratios hold across
machines, milliseconds do not.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from diagnose.probes.stack_samples import StackSampler

BLOCK_NS = 1_000_000_000
DEPTH = 60
PYTHON_LOOPS = 10_000


@dataclass(frozen=True)
class Cost:
    """Medians over the blocks of each kind: the mean step without and with sampling, and the CPU time of the sampling.

    `spread_share` is half the distance between the quartiles of blocks without sampling, as a share of their median.
    """

    loop: str
    without_ms: float
    with_ms: float
    spread_share: float
    cpu_share: float

    @property
    def ratio(self) -> float:
        """How much longer a step takes with sampling."""
        return self.with_ms / self.without_ms


def small_step() -> Callable[[], object]:
    """A step of a small model."""
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(64, 256)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def python_step() -> Callable[[], object]:
    """A step of about 50 ms, of Python alone, whose work is the same each time."""
    began = time.perf_counter()
    _count(PYTHON_LOOPS)
    loops = round(PYTHON_LOOPS * 0.05 / (time.perf_counter() - began))
    return lambda: _count(loops)


def _count(loops: int) -> int:
    total = 0
    for number in range(loops):
        total += number % 7
    return total


def block(step: Callable[[], object], sampled: bool, depth: int = DEPTH) -> tuple[float, float]:
    """Milliseconds of a step, and CPU time of the sampling as a share of the block."""
    if depth:
        return block(step, sampled, depth - 1)
    sampler = StackSampler(threading.get_ident())
    steps, began = 0, time.perf_counter_ns()
    if sampled:
        sampler.start()
    while time.perf_counter_ns() - began < BLOCK_NS:
        step()
        steps += 1
        if sampled:
            sampler.step_ended(steps)
    took_ns = time.perf_counter_ns() - began
    sampler.stop()
    return took_ns / steps / 1e6, sampler.cost_ns / took_ns


def measured(loop: str, step: Callable[[], object], rounds: int) -> Cost:
    """The cost for a loop: without, with, with, without, so that neither gains from its place."""
    block(step, False)
    taken: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in range(2 * rounds):
        sampled = number % 4 in (1, 2)
        taken[sampled].append(block(step, sampled))
    without, sampling = ([ms for ms, _ in taken[kind]] for kind in (False, True))
    low, middle, high = statistics.quantiles(without, n=4)
    cpu_share = statistics.median(share for _, share in taken[True])
    return Cost(loop, middle, statistics.median(sampling), (high - low) / 2 / middle, cpu_share)


def table(costs: list[Cost]) -> str:
    """The costs as a Markdown table."""
    head = "| loop | step without, ms | step with, ms | ratio | spread of blocks without | CPU time of the sampling |\n"
    rows = (
        f"| {cost.loop} | {cost.without_ms:.3f} | {cost.with_ms:.3f} | {cost.ratio:.4f} "
        f"| {100 * cost.spread_share:.2f} % | {100 * cost.cpu_share:.2f} % |"
        for cost in costs
    )
    return head + "|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"


def main() -> None:
    """Print the table, or write it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=12, help="blocks of each kind")
    options.add_argument("--write", type=Path, metavar="FOLDER", help="write a dated report there")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    loops = {"small steps of operators": small_step(), "50 ms of Python": python_step()}
    found = table([measured(loop, step, chosen.rounds) for loop, step in loops.items()])
    print(found)
    if chosen.write:
        day = datetime.now(UTC).date().isoformat()
        heading = (
            f"# Cost of sampling the stack, {day}\n\n"
            f"`python benchmarks/sampling_cost.py --rounds {chosen.rounds} --write benchmarks/reports`, Python "
            f"{platform.python_version()}, torch {torch.__version__}, {platform.machine()}. Medians over blocks of one "
            "second\nthat take turns; the spread is half the distance between the quartiles.\n\n"
        )
        (chosen.write / f"sampling-cost-{day}.md").write_text(heading + found, encoding="utf-8")


if __name__ == "__main__":
    main()
