"""How much longer a step is in each kind of window: none, ranges alone, operators, shapes, stacks, memory.

    python benchmarks/windows.py
    python benchmarks/windows.py --rounds 20 --write benchmarks/reports     # a dated report there

Four jobs on the CPU, each in one process whose windows of seven steps take turns. A step is CPU time of the process, so
that other work takes no part, and a ratio is the median one of windows of the same round. Ratios hold across machines,
milliseconds do not.
`clock` are ranges timed by the probe's own clock, as in the steps without the profiler of every capture; `ranges` is a
profiler that records ranges and no operators.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import torch
from overhead import training_step
from torch.autograd import profiler as torch_autograd
from torch.profiler import ProfilerActivity, profile

from diagnose.probes.recording.range_times import Timed, times

STEPS = 7  # of a window
OPTIONS: Mapping[str, Mapping[str, bool] | None] = {
    "none": None,
    "clock": None,
    "ranges": {},
    "operators": {},
    "shapes": {"record_shapes": True},
    "stacks": {"record_shapes": True, "with_stack": True},
    "memory": {"record_shapes": True, "with_stack": True, "profile_memory": True},
}
RANGES = 20  # of a step
Step = Callable[[], object]


def small_operators() -> Step:
    """Many operators on eight numbers, each of some microseconds."""
    weights = [torch.nn.Parameter(torch.randn(8)) for _ in range(20)]
    optimizer = torch.optim.SGD(weights, lr=1e-3, foreach=False)

    def step() -> None:
        x = torch.randn(8)
        for _ in range(15):
            for weight in weights:
                x = torch.sigmoid(x * weight) + weight
        x.sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def python_calls() -> Step:
    """Fifteen thousand calls of a function, and a few operators."""
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def more(number: int) -> int:
        return number + 1

    def step() -> None:
        number = 0
        for _ in range(15_000):
            number = more(number)
        model(torch.randn(32, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def language_model() -> Step:
    """What transformers' Trainer computes in a step of a small GPT-2, its hooks left out."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=64, n_head=4, vocab_size=512, n_positions=64))
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 512, (2, 64))

    def step() -> None:
        model(input_ids=tokens, labels=tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


JOBS = {
    "small operators": small_operators,
    "calls of Python": python_calls,
    "bare loop": training_step,
    "GPT-2, 4 layers of 64": language_model,
}


@contextmanager
def recording(kind: str, exported: bool) -> Iterator[Callable[[], int]]:
    """A window of the kind; afterwards the bytes of its trace where it is `exported`, 0 without one."""
    options, size = OPTIONS[kind], [0]
    times.restart(on=kind == "clock")
    if options is None:
        yield lambda: size[0]
        times.restart(on=False)
        return
    with _scopes(kind == "ranges"):
        profiler = profile(activities=[ProfilerActivity.CPU], **options)
        profiler.start()
    yield lambda: size[0]
    profiler.stop()
    if exported:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(path))
            size[0] = path.stat().st_size


@contextmanager
def _scopes(ranges_alone: bool) -> Iterator[None]:
    """Torch's profiler takes the kinds of events that it looks at, and no option of its class hands them over."""
    from torch._C._profiler import RecordScope

    enable: Any = vars(torch_autograd)["_enable_profiler"]
    if ranges_alone:
        torch_autograd._enable_profiler = lambda config, on: enable(config, on, {RecordScope.USER_SCOPE})  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch_autograd._enable_profiler = enable  # type: ignore[attr-defined]


def measured(step: Step, rounds: int) -> dict[str, tuple[float, int]]:
    """The median step of each kind in milliseconds, and the bytes of its trace for each step.

    Of the kinds but "none" it is that of "none" times the median ratio of both in a round, so that what slows the whole
    machine for a while slows both.
    """
    size = dict.fromkeys(OPTIONS, 0)
    lasted: dict[str, list[float]] = {kind: [] for kind in OPTIONS}
    for _ in range(5):
        step()
    for number in range(rounds):
        order = list(OPTIONS) if number % 2 else list(reversed(OPTIONS))
        for kind in order:
            with recording(kind, exported=number == 0) as written:
                lasted[kind].append(median(_lasted_ms(step, kind) for _ in range(STEPS)))
            size[kind] = max(size[kind], written() // STEPS)
    without = lasted["none"]
    ratio = {kind: median(a / b for a, b in zip(lasted[kind], without, strict=True)) for kind in OPTIONS}
    return {kind: (median(without) * ratio[kind], size[kind]) for kind in OPTIONS}


def _lasted_ms(step: Step, kind: str) -> float:
    began = time.process_time_ns()
    for number in range(RANGES if kind == "clock" else 0):
        with Timed(str(number)):
            pass
    step()
    return (time.process_time_ns() - began) / 1e6


def table(rounds: int) -> str:
    """A row for each job: the step without a profiler, and how many times as long it is in each kind of window."""
    kinds = [kind for kind in OPTIONS if kind != "none"]
    lines = [f"| job | step, ms | {' | '.join(kinds)} | MB a step: shapes | stacks |", "|---" * (len(kinds) + 4) + "|"]
    for name, job in JOBS.items():
        found = measured(job(), rounds)
        without = found["none"][0]
        ratios = " | ".join(f"{found[kind][0] / without:.2f}x" for kind in kinds)
        sizes = " | ".join(f"{found[kind][1] / 1e6:.2f}" for kind in ("shapes", "stacks"))
        lines.append(f"| {name} | {without:.2f} | {ratios} | {sizes} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the report if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--write", type=Path, default=None, metavar="FOLDER")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = table(asked.rounds)
    print(found)
    if asked.write is not None:
        today = datetime.now(UTC).date().isoformat()
        path = asked.write / f"windows-{today}.md"
        command = f"python benchmarks/windows.py --rounds {asked.rounds} --write {asked.write}"
        versions = f"Python {platform.python_version()}, torch {torch.__version__}"
        cores = f"{os.cpu_count()} cores of {platform.machine()}, {os.getloadavg()[2]:.1f} processes at once"
        path.write_text(
            f"# How much longer a step is in each kind of window, {today}\n\n`{command}`, {versions},\n{cores}. "
            "Windows take turns in one process; a step is its CPU time, a ratio the median of rounds.\n"
            "`clock`: 20 ranges of a step by the probe's own clock. `ranges`: a profiler that records ranges alone.\n"
            f"`stacks` records shapes too, and `memory` both.\n\n{found}\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
