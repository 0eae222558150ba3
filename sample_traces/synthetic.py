"""Synthetic sample traces: a transformer on simulated H100s, one fault put into each, or none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from kineto import Trace, collective
from transformer import Model, Run

MIB = 1 << 20
HOOK = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
SMALL = Model(layers=2, hidden=2048, heads=16, inner=5632, vocabulary=32000, batch=8, length=2048)
LARGE = replace(SMALL, layers=4, hidden=4096, heads=32, inner=14336, batch=4)


def _batch(run: Run, loader_ms: float = 0.05, workers: int = 4, pinned: bool = True) -> None:
    run.job.loader(ms=loader_ms, workers=workers)
    run.job.copy(16 * run.model.tokens, pinned=pinned)


def _step(run: Run) -> None:
    _batch(run)
    run.embed()
    for _ in range(run.model.layers):
        run.layer()
    run.loss()
    for _ in range(run.model.layers):
        run.layer_backward()
    run.optimizer()


def compute_bound() -> Trace:
    """Fused kernels around large matrix products, the loss read once a step: nothing to repair."""
    job = Trace()
    for _ in range(5):
        with job.step():
            _step(Run(job, LARGE))
            job.item()
    return job


def memory_bound() -> Trace:
    """Attention, norms, activation and loss of single operators, AdamW with foreach; the host runs far ahead."""
    job = Trace()
    model = replace(SMALL, heads=32, batch=4, eager=True)
    for _ in range(5):
        with job.step():
            _step(Run(job, model))
    return job


def sync_every_step() -> Trace:
    """A number is read off the device after every layer, written to a log, and only then is more work launched."""
    job = Trace()
    run = Run(job, replace(SMALL, layers=4, batch=4, length=1024))

    def log() -> None:
        job.item()
        job.host(600)

    for _ in range(5):
        with job.step():
            _batch(run)
            run.embed()
            for _ in range(run.model.layers):
                run.layer()
                log()
            run.loss()
            for _ in range(run.model.layers):
                run.layer_backward()
                log()
            run.optimizer()
            log()
    return job


def tiny_kernels() -> Trace:
    """Kernels shorter than their own launch: the device waits for the host all the time."""
    job = Trace()
    model = Model(layers=3, hidden=256, heads=4, inner=512, vocabulary=1024, batch=2, length=128, eager=True)
    for _ in range(4):
        with job.step():
            _step(Run(job, model, host_us=14))
    return job


def _ranks(count: int, steps: int, late: Callable[[int], float], buckets: int, mib: int, us: float) -> list[Trace]:
    """Data-parallel ranks; each layer's backward pass is followed by its share of the gradient buckets."""
    jobs = [Trace(rank=rank, world=count, start_us=37 * rank) for rank in range(count)]
    runs = [Run(job, SMALL) for job in jobs]
    for _ in range(steps):
        marks = [job.annotation(f"ProfilerStep#{job.next_step}") for job in jobs]
        for job, run, mark in zip(jobs, runs, marks, strict=True):
            job.next_step += 1
            mark.__enter__()
            _batch(run, loader_ms=0.05 + late(job.rank))
            run.embed()
            for _ in range(run.model.layers):
                run.layer()
            run.loss()
        for layer in range(SMALL.layers):
            for run in runs:
                run.layer_backward()
            for bucket in range(buckets):
                last = layer == SMALL.layers - 1 and bucket == buckets - 1
                with ExitStack() as hooks:
                    for job in jobs:
                        hooks.enter_context(job.backward(HOOK))
                    collective(jobs, "allreduce", mib * MIB, us, wait=last)
        for job, run, mark in zip(jobs, runs, marks, strict=True):
            run.optimizer()
            job.item()
            mark.__exit__(None, None, None)
    return jobs


def communication_bound() -> Trace:
    """Rank 0 of 8 on a slow network: a 54 MiB bucket takes 4.5 ms, far longer than the backward pass can hide."""
    return _ranks(8, 5, lambda rank: 0.0, buckets=3, mib=54, us=4500)[0]


def healthy_8() -> list[Trace]:
    """Eight equal ranks; the gradient buckets travel under the backward pass."""
    return _ranks(8, 5, lambda rank: 0.0, buckets=6, mib=26, us=175)


def straggler() -> list[Trace]:
    """Rank 5 waits 15 ms for its batch in every step and the other seven wait for rank 5 in the all-reduce."""
    return _ranks(8, 6, lambda rank: 15.0 if rank == 5 else 0.0, buckets=6, mib=26, us=175)


MADE: dict[str, Callable[[], Trace | list[Trace]]] = {
    "synthetic-sync-every-step": sync_every_step,
    "synthetic-tiny-kernels": tiny_kernels,
    "synthetic-memory-bound": memory_bound,
    "synthetic-compute-bound": compute_bound,
    "synthetic-communication-bound": communication_bound,
    "synthetic-healthy-8": healthy_8,
    "synthetic-straggler": straggler,
}


def make(name: str, into: Path) -> list[Path]:
    """Write the named trace, or its folder of traces, into `into`."""
    made = MADE[name]()
    if isinstance(made, Trace):
        return [made.write(into / f"{name}.json.gz")]
    return [job.write(into / name / f"rank{job.rank}.json.gz") for job in made]
