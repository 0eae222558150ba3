"""What an armed run costs: processor time of a step, the same loop armed and not, and memory and disk over an hour.

    python benchmarks/armed.py                                       # two minutes
    python benchmarks/armed.py --rounds 60 --minutes 0 --write benchmarks/reports
    python benchmarks/armed.py --rounds 0 --minutes 60 --write benchmarks/reports
    python benchmarks/armed.py --live --rounds 60 --minutes 0 --write benchmarks/reports
    python benchmarks/armed.py --live --rounds 0 --steps 100000 --write benchmarks/reports

The loop is a bare one with a DataLoader and AdamW, under the hooks that `diagnose run --arm` puts in. Blocks of a fifth
of a second with and without them take turns in one process. A figure is the mean step of a block, the median of all
blocks of its kind; a ratio is of neighbouring blocks, the median of all, with the standard error of a median. Processor
time is that of the process, its threads among it, so that other work on the machine touches it less than wall time.
The job of the hour sleeps between steps of a millisecond; that of so many steps does not.

With `--live` the figures of the steps go to a file (`diagnose run --arm --log`), and the time of the figures of one log
of a Trainer is measured in its place between steps, as with `logging_steps=1`.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from advice_jobs.timing import place, settle, where

from diagnose.probes import current_session
from diagnose.probes.config import Config
from diagnose.probes.hooks import torch_hooks
from diagnose.probes.machine.now import MachineNow
from diagnose.probes.protocol import ARMED, LIVE, SCRATCH, STEP_LOG
from diagnose.probes.reporting.live import Live
from diagnose.probes.timing.session import TimingSession
from diagnose.probes.timing.triggers import Triggers

BLOCK_NS = 200_000_000
HOOK_STEPS = 2000
STEP_SLEEP_S = 0.1
SETTLES_S = 60.0  # the first minute fills caches and buffers


@dataclass(frozen=True)
class Block:
    """The mean step of one block in milliseconds: wall time, and processor time of the process."""

    wall_ms: float
    cpu_ms: float


@dataclass(frozen=True)
class Held:
    """What the process and its step log hold after so many minutes."""

    minutes: float
    steps: int
    rss_bytes: int
    log_bytes: int


class Job:
    """A training loop of this process, armed into `folder`; `armed` says whether the hooks listen."""

    def __init__(self, folder: Path, width: int, live: bool = False) -> None:
        (folder / SCRATCH).mkdir(parents=True)
        self.log, self.lines = folder / STEP_LOG.format(0), folder / LIVE
        self.session = TimingSession(Config(str(folder), armed=Triggers(when_slow=1e6).to_json(), log=live))
        current_session._session, current_session._asked = self.session, True
        torch_hooks.install()
        self._model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(4))).to(place())
        self._optimizer = torch.optim.AdamW(self._model.parameters())
        self._data = torch.utils.data.TensorDataset(torch.randn(64 * 64, width))
        self._batches = self._endless()

    def step(self) -> None:
        """One optimizer step."""
        (batch,) = next(self._batches)
        self._model(batch.to(place())).square().mean().backward()
        self._optimizer.step()
        self._optimizer.zero_grad()

    def block(self, armed: bool) -> Block:
        """Steps of one block."""
        torch_hooks._over = not armed
        steps, began, cpu_began = 0, time.perf_counter_ns(), time.process_time_ns()
        while time.perf_counter_ns() - began < BLOCK_NS:
            self.step()
            steps += 1
        settle()
        took, cpu = time.perf_counter_ns() - began, time.process_time_ns() - cpu_began
        return Block(took / steps / 1e6, cpu / steps / 1e6)

    def _endless(self) -> Iterator[list[torch.Tensor]]:
        while True:
            yield from torch.utils.data.DataLoader(self._data, batch_size=64)


@contextmanager
def timed_hooks() -> Iterator[list[int]]:
    """Nanoseconds of the training thread's processor time for each call of the hook of a step."""
    took: list[int] = []
    counts = torch_hooks.has_stepped

    def timed(what: Any, tell: Callable[[], torch_hooks.Stepped]) -> None:
        began = time.thread_time_ns()
        counts(what, tell)
        took.append(time.thread_time_ns() - began)

    torch_hooks.has_stepped = timed
    try:
        yield took
    finally:
        torch_hooks.has_stepped = counts


def hook_us(job: Job) -> tuple[float, float]:
    """Mean processor time of the training thread for the hook of a step, and for the whole step, in microseconds.

    In its place between real steps, which leave its code and data out of the caches: in a row it takes a tenth.
    """
    assert job.session.phase == ARMED
    with timed_hooks() as took:
        began = time.thread_time_ns()
        for _ in range(HOOK_STEPS):
            job.step()
        whole = time.thread_time_ns() - began
    return sum(took) / HOOK_STEPS / 1e3, whole / HOOK_STEPS / 1e3


def figures_us(job: Job) -> float:
    """Mean processor time of the training thread for the figures of a log after each step, in microseconds."""
    live, took = Live(machine=MachineNow()), list[int]()
    for _ in range(HOOK_STEPS):
        job.step()
        live.step_ended()
        began = time.thread_time_ns()
        live.scalars(64)
        took.append(time.thread_time_ns() - began)
    return sum(took) / HOOK_STEPS / 1e3


def costs(job: Job, rounds: int) -> list[str]:
    """A Markdown table of what it costs."""
    job.block(True)
    pairs: list[tuple[Block, Block]] = []
    for number in range(rounds):
        order = (False, True) if number % 2 else (True, False)
        took = {armed: job.block(armed) for armed in order}
        pairs.append((took[False], took[True]))
    torch_hooks._over = False
    us, step_us = hook_us(job)
    of_logs = []
    if job.session.config.log:
        of_logs = ["", f"The figures of a log of the Trainer take {figures_us(job):.1f} us of it, at each step."]
    return [
        "| a step's | without, ms | armed, ms | ratio | its standard error | quartiles of pairs |",
        "|---|---|---|---|---|---|",
        _row("wall time", [(without.wall_ms, armed.wall_ms) for without, armed in pairs]),
        _row("processor time", [(without.cpu_ms, armed.cpu_ms) for without, armed in pairs]),
        "",
        f"The hook takes {us:.1f} us of the training thread's processor time in its place between steps, which is "
        f"{us / step_us:.2%} of these steps of {step_us / 1000:.1f} ms, and {us / 100_000:.3%} of one of 100 ms.",
        *of_logs,
    ]


def _row(of: str, pairs: list[tuple[float, float]]) -> str:
    ratios = [armed / without for without, armed in pairs]
    low, _, high = statistics.quantiles(ratios, n=4)
    error = 1.2533 * (high - low) / 1.349 / len(ratios) ** 0.5  # by the quartiles: single blocks are far off
    without, armed = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = f"{statistics.median(ratios):.4f} | {error:.4f} | {low:.3f} to {high:.3f}"
    return f"| {of} | {without:.3f} | {armed:.3f} | {ratio} |"


def many(job: Job, count: int) -> tuple[list[Held], float]:
    """What is held after each twentieth of so many steps, and the mean microseconds of the hook over all of them."""
    began, held, hooks_ns = time.monotonic(), list[Held](), 0
    each = max(count // 20, 1)
    for steps in range(each, count + 1, each):
        with timed_hooks() as took:
            for _ in range(each):
                job.step()
        hooks_ns += sum(took)
        held.append(Held((time.monotonic() - began) / 60, steps, _rss_bytes(), job.log.stat().st_size))
    return held, hooks_ns / held[-1].steps / 1e3


def hour(job: Job, minutes: float) -> Iterator[Held]:
    """What is held each minute; the first is that of the first minute's end."""
    began, steps, due = time.monotonic(), 0, min(SETTLES_S, minutes * 30)
    while time.monotonic() - began < minutes * 60:
        job.step()
        steps += 1
        time.sleep(STEP_SLEEP_S)
        if time.monotonic() - began >= due:
            yield Held(due / 60, steps, _rss_bytes(), job.log.stat().st_size)
            due += SETTLES_S
    yield Held((time.monotonic() - began) / 60, steps, _rss_bytes(), job.log.stat().st_size)


def told(held: list[Held]) -> list[str]:
    """A Markdown table of about ten of them, and the growth."""
    lines = ["| minutes | steps | memory of the process, MiB | step log, KiB |", "|---|---|---|---|"]
    for one in dict.fromkeys([*held[:: max(len(held) // 10, 1)], held[-1]]):
        lines.append(
            f"| {one.minutes:.1f} | {one.steps:,} | {one.rss_bytes / 2**20:.1f} | {one.log_bytes / 2**10:.1f} |"
        )
    grown = (held[-1].rss_bytes - held[0].rss_bytes) / 2**20
    per_step = held[-1].log_bytes / max(held[-1].steps, 1)
    used_s = time.process_time()
    lines += [
        "",
        f"Memory from the first reading to the last: {grown:+.1f} MiB. The log takes {per_step:.1f} bytes per step. "
        f"The process used {used_s:.0f} s of processor time.",
    ]
    return lines


def _rss_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Print the tables, or write them."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=40, help="pairs of blocks; 0 leaves the costs out")
    options.add_argument("--minutes", type=float, default=1.0, help="of the job whose memory is read; 0 leaves it out")
    options.add_argument("--steps", type=int, default=0, help="memory over so many steps in the place of minutes")
    options.add_argument("--live", action="store_true", help="with the figures of the steps")
    options.add_argument("--width", type=int, default=512, help="of the model")
    options.add_argument("--write", type=Path, metavar="FOLDER", help="write a dated report there")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(Path(folder) / "run", chosen.width if chosen.rounds else 64, chosen.live)
        parts = {"cost": costs(job, chosen.rounds)} if chosen.rounds else {}
        if chosen.minutes or chosen.steps:
            held, us = many(job, chosen.steps) if chosen.steps else (list(hour(job, chosen.minutes)), None)
            parts["memory"] = told(held)
            if us is not None:
                of_each = f"The hook takes {us:.1f} us of the training thread's processor time, the mean of all steps."
                parts["memory"] += ["", of_each]
            if job.lines.is_file():
                parts["memory"] += ["", f"`live.jsonl` takes {job.lines.stat().st_size / 2**10:.1f} KiB."]
        job.session.loop_ended()
    for name, lines in parts.items():
        print("\n".join(lines), end="\n\n")
        if chosen.write:
            _write(chosen.write, f"live-{name}" if chosen.live else name, lines)


def _write(folder: Path, name: str, lines: list[str]) -> None:
    day = datetime.now(UTC).date().isoformat()
    heading = (
        f"# An armed run: {name}, {day}\n\n`python benchmarks/armed.py {' '.join(sys.argv[1:])}`, Python "
        f"{platform.python_version()},\ntorch {torch.__version__}, {where()} of {platform.machine()}. "
        "What is measured stands in the docstring of the script.\n\n"
    )
    (folder / f"armed-{name}-{day}.md").write_text(heading + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
