"""How much longer a step is while it is recorded: in each kind of window of the profiler, and while stacks are sampled.

    python -m benchmarks.speed.recording                         # three minutes
    python -m benchmarks.speed.recording --rounds 20 --write

Jobs on the CPU, each in one process in which the kinds take turns. A step is CPU time of the process, so that other
work takes no part, and a ratio is the median one of neighbours in a round: ratios hold across machines, milliseconds do
not. `clock`: 20 ranges of a step by the probe's own clock, as in the steps without the profiler of every capture;
`ranges`: a profiler that records ranges alone; `stacks` records shapes too, and `memory` both. `sampled`: the stack,
60 frames deep as under a Trainer, is read meanwhile in blocks of a fifth of a second.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch
from measuring import in_turns
from reporting import page, parser, publish, table
from torch.autograd import profiler as torch_autograd
from torch.profiler import ProfilerActivity, profile

from diagnose.probes.recording.range_times import Timed, times
from diagnose.probes.stacks.sampling import StackSampler

STEPS, RANGES = 7, 20  # of a window, and of a step
BLOCK_NS, DEPTH = 200_000_000, 60
OPTIONS: Mapping[str, Mapping[str, bool] | None] = {
    "none": None,
    "clock": None,
    "ranges": {},
    "operators": {},
    "shapes": {"record_shapes": True},
    "stacks": {"record_shapes": True, "with_stack": True},
    "memory": {"record_shapes": True, "with_stack": True, "profile_memory": True},
}
KINDS = [kind for kind in OPTIONS if kind != "none"]
Step = Callable[[], object]


def small_operators() -> Step:
    """Many operators on eight numbers, each of some microseconds."""
    weights = [torch.nn.Parameter(torch.randn(8)) for _ in range(20)]

    def loss() -> torch.Tensor:
        x = torch.randn(8)
        for weight in 15 * weights:
            x = torch.sigmoid(x * weight) + weight
        return x.sum()

    return trained(torch.optim.SGD(weights, lr=1e-3, foreach=False), loss)


def python_calls() -> Step:
    """Fifteen thousand calls of a function, and a few operators."""
    model = torch.nn.Linear(64, 64)

    def more(number: int) -> int:
        return number + 1

    def loss() -> torch.Tensor:
        number = 0
        for _ in range(15_000):
            number = more(number)
        return model(torch.randn(32, 64)).sum()

    return trained(torch.optim.SGD(model.parameters(), lr=1e-3), loss)


def bare_loop() -> Step:
    """A small model with a fused optimizer."""
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
    batch = torch.randn(64, 256)
    return trained(torch.optim.AdamW(model.parameters(), fused=True), lambda: model(batch).square().mean())


def language_model() -> Step:
    """What transformers' Trainer computes in a step of a small GPT-2, its hooks left out."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=64, n_head=4, vocab_size=512, n_positions=64))
    tokens = torch.randint(0, 512, (2, 64))
    return trained(torch.optim.AdamW(model.parameters()), lambda: model(input_ids=tokens, labels=tokens).loss)


def trained(optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> Step:
    """A training step."""

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


JOBS = {
    "small operators": small_operators,
    "calls of Python": python_calls,
    "bare loop": bare_loop,
    "GPT-2, 4 layers of 64": language_model,
}


def window(step: Step, kind: str) -> tuple[float, int]:
    """CPU milliseconds of the median step in a window of the kind, and the bytes of its trace for each step."""
    times.restart(on=kind == "clock")
    with _scopes(kind == "ranges"):
        options = OPTIONS[kind]
        profiler = None if options is None else profile(activities=[ProfilerActivity.CPU], **options)
        if profiler:
            profiler.start()
    lasted_ms = median(_lasted_ms(step, kind) for _ in range(STEPS))
    times.restart(on=False)
    if not profiler:
        return lasted_ms, 0
    profiler.stop()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return lasted_ms, path.stat().st_size // STEPS


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


def _lasted_ms(step: Step, kind: str) -> float:
    began = time.process_time_ns()
    for number in range(RANGES if kind == "clock" else 0):
        with Timed(str(number)):
            pass
    step()
    return (time.process_time_ns() - began) / 1e6


def block(step: Step, sampled: bool, depth: int = DEPTH) -> tuple[float, float]:
    """CPU milliseconds of the mean step of a block, and the sampler's share of its wall time by its own account."""
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
    return cpu_ns / steps / 1e6, sampler.cost_ns / took_ns


def ratio(longer: list[float], shorter: list[float]) -> float:
    """The median ratio of neighbours, so that what slows the whole machine for a while slows both."""
    return median(a / b for a, b in zip(longer, shorter, strict=True))


def row(name: str, step: Step, rounds: int) -> list[str]:
    """How many times as long the job's step is in each kind of window, its trace, and what sampling costs."""
    block(step, sampled=False)
    windows = in_turns(OPTIONS, rounds, lambda kind: window(step, kind))
    lasted = {kind: [ms for ms, _ in found] for kind, found in windows.items()}
    block(step, sampled=False)
    blocks = in_turns(("without", "sampled"), rounds, lambda kind: block(step, kind == "sampled"))
    without, sampled = ([ms for ms, _ in found] for found in blocks.values())
    return [
        name,
        f"{median(lasted['none']):.2f}",
        *(f"{ratio(lasted[kind], lasted['none']):.2f}x" for kind in KINDS),
        *(f"{max(size for _, size in windows[kind]) / 1e6:.2f}" for kind in ("shapes", "stacks")),
        f"{ratio(sampled, without):.4f}x",
        f"{100 * median(share for _, share in blocks['sampled']):.2f} %",
    ]


def main() -> None:
    """Measure each job, and print or write the table."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=10)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    heads = ["job", "step, ms", *KINDS, "MB a step: shapes", "stacks", "sampled", "the sampler's own"]
    rows = [row(name, job(), chosen.rounds) for name, job in JOBS.items()]
    about = f"Torch {torch.__version__}; kinds of recording take turns in one process, {chosen.rounds} rounds."
    publish(page("How much longer a recorded step is", about, table(heads, rows)), chosen.write, "recording")


if __name__ == "__main__":
    main()
