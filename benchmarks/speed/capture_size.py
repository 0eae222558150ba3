"""What a capture takes against what its trial step foretold: text, memory and stall, and that a budget is kept.

    python -m benchmarks.speed.capture_size                  # two minutes
    python -m benchmarks.speed.capture_size --budgets 16 --write

Each job runs in a process of its own, is captured by the recorder of `diagnose run` with two steps of warm-up and four
recorded, once without a limit and once with each budget. The stall is the time until the profiler has stopped and the
trace is exported, in which the training thread stands still; memory is the peak of the process above what it had before
the window. Text is exact on every machine, seconds hold for one.
"""

import gzip
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from measuring import in_a_process
from reporting import numbers, page, parser, publish, table
from torch import nn

from diagnose.probes.config import Config
from diagnose.probes.limits.allowance import Allowance
from diagnose.probes.recording.recorder import Recorder

MB = 1_000_000
UNLIMITED = 1 << 50
WARMUP, ACTIVE = 2, 4


@dataclass(frozen=True)
class Job:
    """A training step: its module, the shape of a batch, micro-batches in a step, the form of the optimizer."""

    module: Callable[[], nn.Module]
    batch: tuple[int, ...]
    accumulate: int = 1
    fused: bool | None = None


def stack(layers: int, layer: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """So many layers, one after the other."""
    return lambda: nn.Sequential(*(layer() for _ in range(layers)))


def encoder() -> nn.Module:
    """A layer of many small operators."""
    return nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)


JOBS = {
    "30 linear layers": Job(stack(30, lambda: nn.Linear(16, 16)), (2, 16)),
    "30 linear layers, accumulation 64": Job(stack(30, lambda: nn.Linear(16, 16)), (2, 16), 64),
    "6 encoder layers": Job(stack(6, encoder), (2, 8, 32)),
    "6 encoder layers, accumulation 8, fused": Job(stack(6, encoder), (2, 8, 32), 8, fused=True),
    "8 convolutions": Job(stack(8, lambda: nn.Conv2d(8, 8, 3, padding=1)), (2, 8, 32, 32)),
    "two large products": Job(stack(2, lambda: nn.Linear(1024, 1024)), (512, 1024)),
}


@dataclass(frozen=True)
class Taken:
    """What a window was expected to take, and what it took; bytes and seconds."""

    expected_text: int
    text: int
    expected_memory: int
    memory: int
    expected_stall_s: float
    stall_s: float
    steps: int
    shapes: bool
    compressed: int


def step_of(job: Job) -> Callable[[], None]:
    """The job's training step."""
    torch.set_num_threads(1)
    model, batch = job.module(), torch.randn(job.batch)
    optimizer = torch.optim.AdamW(model.parameters(), fused=job.fused)

    def step() -> None:
        for _ in range(job.accumulate):
            model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def captured(name: str, budget_bytes: int) -> Taken:
    """Capture a window of the job of that name in this process."""
    with tempfile.TemporaryDirectory() as folder:
        return _captured(JOBS[name], budget_bytes, Path(folder))


def _captured(job: Job, budget_bytes: int, folder: Path) -> Taken:
    step, allowance = step_of(job), Allowance(Config(str(folder), budget_bytes=budget_bytes))
    exports = timed_exports()
    for _ in range(3):
        step()
    before = reset_peak_bytes()
    recorder = Recorder(folder / "rank0.json.gz", WARMUP, ACTIVE, allowance)
    recorder.start(list, 4)
    step()
    recorder.step()
    for _ in range(WARMUP - 1 + recorder.active if recorder.active else 0):
        step()
        began = time.perf_counter()
        recorder.step()
    recorder.stop()
    stopped_s = time.perf_counter() - began if recorder.active else 0.0
    recorder.write()
    size, peak = allowance.choice.size, peak_bytes()
    assert size is not None
    trace = gzip.decompress(recorder.path.read_bytes()) if recorder.written else b""
    return Taken(
        size.text_bytes if recorder.written else 0,
        len(trace),
        size.memory_bytes if recorder.written else 0,
        peak - before,
        size.stall_s if recorder.written else 0.0,
        stopped_s + exports[-1] if recorder.written else 0.0,
        recorder.active,
        allowance.choice.shapes,
        recorder.path.stat().st_size if recorder.written else 0,
    )


def timed_exports() -> list[float]:
    """The seconds of every export from now on."""
    took: list[float] = []
    export = torch.profiler.profile.export_chrome_trace

    def timed(self: torch.profiler.profile, path: str, *more: object) -> None:
        began = time.perf_counter()
        export(self, path, *more)  # type: ignore[arg-type]
        took.append(time.perf_counter() - began)

    torch.profiler.profile.export_chrome_trace = timed  # type: ignore[method-assign]
    return took


def reset_peak_bytes() -> int:
    """Forget the peak of this process's memory (proc(5)); what it has at present."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def peak_bytes() -> int:
    """The peak of this process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def expected_and_taken() -> Iterator[list[str]]:
    """A row for each job without a limit."""
    for name in JOBS:
        taken = in_a_process(captured, name, UNLIMITED)
        yield [
            name, f"{taken.text / MB:.1f}", f"{taken.expected_text / MB:.1f}",
            f"{taken.expected_text / taken.text:.2f}", f"{taken.memory / MB:.0f}", f"{taken.expected_memory / MB:.0f}",
            f"{taken.stall_s:.2f}", f"{taken.expected_stall_s:.2f}", f"{taken.compressed / MB:.1f}",
        ]  # fmt: skip


def within(budgets_mb: Sequence[int]) -> Iterator[list[str]]:
    """A row for each job and budget."""
    for name, budget in product(JOBS, budgets_mb):
        taken = in_a_process(captured, name, budget * MB)
        kept, shapes = ("yes" if holds else "no" for holds in (taken.text <= budget * MB, taken.shapes))
        yield [name, f"{budget}", f"{taken.steps}", shapes, f"{taken.text / MB:.1f}", kept]


def main() -> None:
    """Print the tables, or write them."""
    options = parser(__doc__)
    options.add_argument("--budgets", type=numbers, default=[64, 16, 4], metavar="MB,...", help="those that are tried")
    chosen = options.parse_args()
    heads = "job", "text, MB", "expected", "ratio", "memory, MB", "expected", "stall, s", "expected", "compressed, MB"
    taken = table(heads, expected_and_taken())
    kept = table(("job", "budget, MB", "steps", "shapes", "text, MB", "within"), within(chosen.budgets))
    about = (
        f"Torch {torch.__version__}. Expected is what one trial step foretold of four recorded ones, with shapes if"
        " nothing is cut. Memory is the peak of the process above what it had before the window, the trial's own"
        " included."
    )
    publish(page("What a capture takes", about, taken, kept), chosen.write, "capture-size")


if __name__ == "__main__":
    main()
