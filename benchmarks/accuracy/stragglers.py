"""Which rank and cause are named in real two-process gloo jobs with an injected fault, and whom the control accuses.

    python -m benchmarks.accuracy.stragglers --repeats 20 --write      # half a minute for each repeat

Each repeat starts two processes of one thread each, which train a small DDP model on the CPU once for every fault under
torch.profiler. The faulty rank is drawn from the seed, except the one that saves. Faults are large against the noise
of a shared machine: they more than double the step. What curing the late rank is said to gain is set beside the step
of the control of the same repeat. Needs torch.
"""

import gc
import io
import os
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from measuring import rules_read_once
from reporting import page, parser, publish, table

from diagnose.analysis import analyze

CAUSES = {
    "none": "", "sleep": "host", "long_sleep": "host", "loader": "data", "more_work": "more_work", "gc": "gc",
    "save": "checkpoint",
}  # fmt: skip
NOBODY, ANOTHER = "nobody", "another rank"
SEED, RANKS, STEPS, WARM_UP = 20261121, 2, 6, 2
BASE_S, FAULT_S, LONG_S = 0.08, 0.25, 1.2
ROWS, MORE_ROWS = 64, 1600
LIVE_OBJECTS, COLLECTIONS = 1_000_000, 1
SAVED_FLOATS = 25_000_000
TIMEOUT_S = 600


@dataclass(frozen=True)
class Case:
    """One job, what was named, and its mean step; `said` is the predicted gain without the late rank, None without one.

    `twin_ms` is the step of the control of the same repeat, None where it was not run.
    """

    fault: str
    late: int
    named: tuple[tuple[int, str], ...]
    says: str
    step_ms: float = 0.0
    said: tuple[float, float] | None = None
    twin_ms: float | None = None

    @property
    def outcome(self) -> str:
        """The cause named for the faulty rank, nobody, or another rank."""
        if not self.named:
            return NOBODY
        guilty = [cause for rank, cause in self.named if CAUSES[self.fault] and rank == self.late]
        return guilty[0] if guilty and len(self.named) == 1 else ANOTHER

    @property
    def right(self) -> bool:
        """Whether the faulty rank alone was named with its cause, or nobody where nobody is at fault."""
        return self.outcome == (CAUSES[self.fault] or NOBODY)


def cases(faults: Sequence[str], repeats: int, seed: int = SEED) -> Iterator[Case]:
    """Every fault `repeats` times, analysed."""
    draw = random.Random(seed)
    for _ in range(repeats):
        plan = [(fault, 0 if fault == "save" else draw.randrange(RANKS)) for fault in faults]
        with tempfile.TemporaryDirectory() as folder:
            _run(plan, Path(folder))
            with rules_read_once():
                judged = [_judged(fault, late, Path(folder) / f"{at}") for at, (fault, late) in enumerate(plan)]
        twin = next((case.step_ms for case in judged if case.fault == "none"), None)
        yield from (replace(case, twin_ms=twin) for case in judged)


def _judged(fault: str, late: int, folder: Path) -> Case:
    diagnosis = analyze(folder)
    named, changes = diagnosis.stragglers, diagnosis.postmortem.changes if diagnosis.postmortem else ()
    says = "; ".join(f"rank {s.rank}: {s.because} [{s.first_diverging}]" for s in named)
    said = next((change.speedup for change in changes if change.change == "no straggler"), None)
    step_ms = sum(part.ns for part in diagnosis.ledger) / max(diagnosis.steps.count, 1) / 1e6
    return Case(fault, late, tuple((s.rank, s.cause) for s in named), says, step_ms, said)


def _run(plan: Sequence[tuple[str, int]], folder: Path) -> None:
    """Both processes from start to end; RuntimeError when one of them fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS), "OMP_NUM_THREADS": "1"}
    started = [
        get_context("spawn").Process(target=worker, args=(plan, folder, shared | {"RANK": str(rank)}))
        for rank in range(RANKS)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(TIMEOUT_S)
    if codes := [process.exitcode for process in started if process.exitcode != 0]:
        raise RuntimeError(f"workers ended with {codes}")


# -- in the worker -------------------------------------------------------------------------------------------------


def worker(plan: Sequence[tuple[str, int]], folder: Path, environment: Mapping[str, str]) -> None:
    """Trains once for each fault of the plan, and writes a trace for each."""
    os.environ.update(environment)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for at, (fault, late) in enumerate(plan):
        fault_here = fault if late == dist.get_rank() else "none"
        (folder / f"{at}").mkdir(exist_ok=True)
        _train(fault_here, folder / f"{at}" / f"rank{dist.get_rank()}.json")
        dist.barrier()
    dist.destroy_process_group()


def _train(fault: str, path: Path) -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.manual_seed(0)
    layers = (torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ballast = [[] for _ in range(LIVE_OBJECTS)] if fault == "gc" else []
    config = torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=WARM_UP, warmup=1, active=STEPS),
        record_shapes=True,
        with_stack=True,  # else torch records no garbage collection
        experimental_config=config,
        on_trace_ready=lambda done: done.export_chrome_trace(str(path)),
    ) as profiler:
        for batch in torch.utils.data.DataLoader(_Samples(fault), batch_size=None):
            _step(fault, model, optimizer, batch)
            profiler.step()
    del ballast


class _Samples:
    """Batches of one length, on the faulty rank slow to read, or long."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def __len__(self) -> int:
        return WARM_UP + 1 + STEPS

    def __getitem__(self, number: int) -> Any:
        import torch

        if number >= len(self):
            raise IndexError(number)
        if self.fault == "loader":
            time.sleep(FAULT_S)
        return torch.ones(MORE_ROWS if self.fault == "more_work" else ROWS, 256)


def _step(fault: str, model: Any, optimizer: Any, batch: Any) -> None:
    import torch

    time.sleep(BASE_S)
    if fault in ("sleep", "long_sleep"):
        time.sleep(LONG_S if fault == "long_sleep" else FAULT_S)
    if fault == "gc":
        for _ in range(COLLECTIONS):
            gc.collect()
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if fault == "save":
        with torch.profiler.record_function("diagnose.save"):
            torch.save(torch.ones(SAVED_FLOATS), io.BytesIO())


# -- the report ----------------------------------------------------------------------------------------------------


def confusion(judged: Sequence[Case]) -> str:
    """How often each cause was named for each fault."""
    outcomes = [*dict.fromkeys(c for c in CAUSES.values() if c), NOBODY, ANOTHER]
    outcomes += sorted({c.outcome for c in judged} - set(outcomes))
    rows = []
    for fault in dict.fromkeys(c.fault for c in judged):
        of_fault = [c for c in judged if c.fault == fault]
        counts = Counter(c.outcome for c in of_fault)
        right = f"{sum(c.right for c in of_fault)}/{len(of_fault)}"
        rows.append([fault, CAUSES[fault] or NOBODY, *(counts[o] or "" for o in outcomes), right])
    return table(["fault", "true cause", *outcomes, "right"], rows)


def _gains(judged: Sequence[Case]) -> Iterator[list[str]]:
    """Predicted against measured gains, by fault."""
    for fault in dict.fromkeys(c.fault for c in judged if CAUSES[c.fault]):
        of_fault = [(c, c.said[1], c.step_ms / c.twin_ms) for c in judged if c.fault == fault and c.said and c.twin_ms]
        if of_fault:
            cases, said, measured = zip(*of_fault, strict=True)
            step, twin = (median(ms) for ms in zip(*((c.step_ms, c.twin_ms) for c in cases), strict=True))
            parts = [_spread(said), _spread(measured), _spread([s / m for _, s, m in of_fault])]
            yield [fault, f"{len(of_fault)}", f"{step:,.0f} ms", f"{twin:,.0f} ms", *parts]


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def report(judged: Sequence[Case], seed: int) -> str:
    """Who was named, and what a cure is said to gain, in Markdown."""
    about = (
        f"Seed {seed}: jobs of {RANKS} processes, one thread each, {STEPS} profiled steps. Columns: the cause named "
        "for the faulty rank, nobody, or another rank accused; in the control nobody is right."
    )
    wrong = [f"- {c.fault}, true rank {c.late}: {c.says or NOBODY}" for c in judged if not c.right]
    gains = (
        "What the step gains without the late rank: by the joint replay of the job with the fault, and measured, the\n"
        "step of that job over the step of the control of the same repeat. Medians, with the least and the most."
    )
    heads = "fault", "jobs", "step", "control", "said", "measured", "said / measured"
    misses = "\n".join(wrong) or "Every job was answered rightly."
    title = "Ranks and causes named in real gloo jobs"
    return page(title, about, confusion(judged), misses, gains, table(heads, _gains(judged)))


def main() -> None:
    """Runs the jobs and prints the table."""
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--faults", nargs="*", choices=list(CAUSES), default=list(CAUSES))
    options.add_argument("--seed", type=int, default=SEED)
    stated = options.parse_args()
    judged = []
    for case in cases(stated.faults, stated.repeats, stated.seed):
        judged.append(case)
        print(f"{case.fault}: {case.outcome}; {case.says}", file=sys.stderr, flush=True)
    publish(report(judged, stated.seed), stated.write, "stragglers")


if __name__ == "__main__":
    main()
