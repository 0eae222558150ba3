"""From a job to its traces and the truth about it."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .faults import CAUSES, STAGES, Fault, cured
from .job import Job
from .kineto import Texts, compressed
from .machine import Machine
from .pipeline import Pipeline
from .training import FIRST_STEP, Training
from .truth import Late, Truth
from .whole import WholeJob, WholeTraining

MS = 1e6


class Simulated:
    """A job that has run."""

    def __init__(self, job: Job) -> None:
        self.job = job
        training = loop_of(job)
        self.machine, self.groups = training.run(), training.groups
        rng = np.random.default_rng((job.seed, 1))
        hosts = len(job.hosts)
        self.offset_ns = np.rint(rng.uniform(-1, 1, hosts) * job.clocks.offset_ms * MS).astype(np.int64)[job.node]
        self.drift = (rng.uniform(-1, 1, hosts) * job.clocks.drift_ppm * 1e-6)[job.node]

    @cached_property
    def healthy(self) -> Machine:
        """The same job without its faults: the same draws, so that only what the faults cause differs."""
        return self._with(cured(self.job.faults, self.job.ranks))

    def _with(self, faults: tuple[Fault, ...]) -> Machine:
        return self.machine if faults == self.job.faults else loop_of(replace(self.job, faults=faults)).run()

    @cached_property
    def equal(self) -> Machine:
        """The same pipeline, the kernels of whose stages take equally long in sum."""
        stage = self.job.stage
        work = np.bincount(stage, self.machine.computed) / np.bincount(stage)
        scaled = (
            Fault("late_stage", tuple(np.flatnonzero(stage == s).tolist()), float(work.mean() / work[s]))
            for s in range(len(work))
        )
        return self._with((*self.job.faults, *scaled))

    @property
    def gains(self) -> dict[str, float]:
        """How many times as fast the job is when it is cured, by the cure."""
        cures = {"without faults": self.healthy}
        if any(fault.kind in STAGES for fault in self.job.faults):
            cures["equal stages"] = self.equal
        return {cure: self._gain(ran) for cure, ran in cures.items()}

    @property
    def gain_of_equal_stages(self) -> float:
        """How many times as fast a pipeline is with equal stages, its faults kept."""
        return self._gain(self.equal)

    def _gain(self, cured: Machine) -> float:
        return _steady_ns(self.machine) / _steady_ns(cured)

    @cached_property
    def truth(self) -> Truth:
        """What an analysis should find."""
        job, ran, healthy = self.job, self.machine, self.healthy
        faults = [f for f in job.faults if CAUSES[f.kind]]
        named = [(rank, f) for f in faults if f.kind not in ("slow_link", *STAGES) for rank in f.ranks]
        return Truth(
            job=asdict(job),
            late=tuple(Late(rank, CAUSES[f.kind], f.kind, f.amount, f.since_step) for rank, f in named),
            slow_links=tuple(f.ranks for f in faults if f.kind == "slow_link"),
            late_stages=tuple(f.ranks for f in faults if f.kind in STAGES),
            gains=self.gains,
            steps=tuple(FIRST_STEP + number for number in range(job.steps)),
            waiting_ms=_rounded((ran.waited - healthy.waited).sum(axis=1)),
            slowdown_ms=_rounded((ran.step_ns - healthy.step_ns).mean(axis=1)),
            step_ms=_rounded(ran.step_ns.mean(axis=1)),
            hosts=tuple(job.hosts[n] for n in job.node.tolist()),
            offset_ns=tuple(self.offset_ns.tolist()),
            drift_ppm=tuple(float(round(d * 1e6, 6)) for d in self.drift.tolist()),
            missing=job.missing,
        )

    def traces(self) -> Iterator[tuple[int, str]]:
        """Rank and JSON of each trace that is not missing."""
        texts = Texts(self.job, self.groups, self.machine.rows, self.offset_ns, self.drift)
        for rank in range(self.job.ranks):
            if rank not in self.job.missing:
                yield rank, texts.of(rank)

    def write(self, folder: Path, *, gz: bool = True) -> Truth:
        """Write `rank{R}.json.gz`, or `.json`, for each rank, and `truth.json`, into the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for rank, text in self.traces():
            (folder / f"rank{rank}.json{'.gz' * gz}").write_bytes(compressed(text) if gz else text.encode())
        self.truth.write(folder)
        return self.truth


def loop_of(job: Job) -> Training:
    """The training loop of the job."""
    if isinstance(job, WholeJob):
        return WholeTraining(job)
    return Pipeline(job) if job.parallelism == "pp_dp" else Training(job)


def simulate(job: Job) -> Simulated:
    """Run the job."""
    return Simulated(job)


def _steady_ns(ran: Machine) -> float:
    """The mean step without the first, unless it is the only one."""
    return float(ran.step_ns[-(len(ran.step_ns) - 1 or 1) :].mean())


def _rounded(ns: NDArray[np.floating | np.integer]) -> tuple[float, ...]:
    return tuple(round(float(value) / MS, 3) for value in ns)
