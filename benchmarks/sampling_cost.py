"""What sampling the stack costs a training step: the same loop with and without it, in blocks that take turns.

    python benchmarks/sampling_cost.py
    python benchmarks/sampling_cost.py --rounds 40 --write benchmarks/reports     # a dated report there

Two bare loops, 60 frames deep as under a Trainer: small steps of operators, where the sampler finds the interpreter
free, and steps of 50 ms in Python alone, where it has to ask for it. A figure is the mean step of a block of a fifth
of a second, the least of all blocks of its kind: other work only ever lengthens one. Ratios hold across machines,
milliseconds do not.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from diagnose.probes.stacks.sampling import StackSampler

BLOCK_NS = 200_000_000
DEPTH = 60
PYTHON_LOOPS = 10_000


@dataclass(frozen=True)
class Cost:
    """Wall time of the mean step in the least block without and with sampling, and CPU time.

    `spread_share` is how far the lower quartile of the blocks without sampling is above the least. `cpu_ratio` is how
    much more CPU time a step of the process takes with sampling, in the median block; `sampler_share` what the sampler
    says of itself.
    """

    loop: str
    without_ms: float
    with_ms: float
    spread_share: float
    cpu_ratio: float
    sampler_share: float


@dataclass(frozen=True)
class Block:
    """The mean step of one block: wall time, CPU time of the process, and the sampler's share of the wall time."""

    wall_ms: float
    cpu_ms: float
    sampler_share: float


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
    took_s = []
    for _ in range(50):
        began = time.perf_counter()
        _count(PYTHON_LOOPS)
        took_s.append(time.perf_counter() - began)
    loops = round(PYTHON_LOOPS * 0.05 / min(took_s))
    return lambda: _count(loops)


def _count(loops: int) -> int:
    total = 0
    for number in range(loops):
        total += number % 7
    return total


def block(step: Callable[[], object], sampled: bool, depth: int = DEPTH) -> Block:
    """A fifth of a second of steps, or one step."""
    if depth:
        return block(step, sampled, depth - 1)
    sampler = StackSampler(threading.get_ident())
    steps, began, cpu_began = 0, time.perf_counter_ns(), time.process_time_ns()
    if sampled:
        sampler.start()
    while time.perf_counter_ns() - began < BLOCK_NS:
        step()
        steps += 1
        if sampled:
            sampler.step_ended(steps)
    took_ns, cpu_ns = time.perf_counter_ns() - began, time.process_time_ns() - cpu_began
    sampler.stop()
    return Block(took_ns / steps / 1e6, cpu_ns / steps / 1e6, sampler.cost_ns / took_ns)


def measured(loop: str, step: Callable[[], object], rounds: int) -> Cost:
    """The cost for a loop: without, with, with, without, so that neither gains from its place."""
    block(step, False)
    taken: dict[bool, list[Block]] = {False: [], True: []}
    for number in range(2 * rounds):
        sampled = number % 4 in (1, 2)
        taken[sampled].append(block(step, sampled))
    walls = {kind: [each.wall_ms for each in blocks] for kind, blocks in taken.items()}
    cpus = {kind: statistics.median(each.cpu_ms for each in blocks) for kind, blocks in taken.items()}
    return Cost(
        loop,
        min(walls[False]),
        min(walls[True]),
        statistics.quantiles(walls[False], n=4)[0] / min(walls[False]) - 1,
        cpus[True] / cpus[False],
        statistics.median(each.sampler_share for each in taken[True]),
    )


def table(costs: list[Cost]) -> str:
    """The costs as a Markdown table."""
    heads = "loop", "step without, ms", "step with, ms", "ratio", "quartile", "ratio of CPU time", "sampler's own"
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for cost in costs:
        wall = f"{cost.without_ms:.3f} | {cost.with_ms:.3f} | {cost.with_ms / cost.without_ms:.4f}"
        rest = f"+{100 * cost.spread_share:.1f} % | {cost.cpu_ratio:.4f} | {100 * cost.sampler_share:.2f} %"
        lines.append(f"| {cost.loop} | {wall} | {rest} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, or write it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=50, help="blocks of each kind")
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
            f"{platform.python_version()},\ntorch {torch.__version__}, {os.cpu_count()} cores of {platform.machine()}."
            " Blocks of a fifth of a second take turns; a step is the mean of\nthe least block. Quartile: how far the"
            " lower one of the blocks without sampling is above their least, by other work on the\nmachine. CPU time"
            " is that of the process by step, in the median block; the sampler's own is a share of wall time.\n\n"
        )
        (chosen.write / f"sampling-cost-{day}.md").write_text(heading + found, encoding="utf-8")


if __name__ == "__main__":
    main()
