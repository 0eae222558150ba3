"""How much the simulated traces look like real ones: kernel lengths, distances of launches, and gaps.

    python -m benchmarks.accuracy.realism

Each distribution of each simulated job is held against the real trace that it is nearest to, by the two-sample
statistic of Kolmogorov and Smirnov; the yardstick is how far real traces are from their own nearest other one. A
nearest-neighbour classifier then tells windows of kernels apart, without windows of the same trace: half right is a
guess.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from simulator import simulate

from diagnose.timeline import timeline_of
from diagnose.trace import read

from .corpus import corpus
from .real import VARIABLE

WINDOW = 64  # kernels
MOST_WINDOWS = 40  # of a trace, so that none outweighs the others
KINDS = ("kernel length", "launch distance", "gap")
SIMULATED = (
    "healthy", "small kernels", "slow host", "loads in the loop", "eager attention", "read-backs in every layer",
)  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """Nanoseconds of each kind, by kernel, in the order of the device, as logarithms; `real` is whose trace it is."""

    name: str
    real: bool
    ns: tuple[NDArray[np.float64], ...]

    @property
    def windows(self) -> NDArray[np.float64]:
        """Quartiles of each kind in stretches of kernels, shape (windows, 9)."""
        count = min(len(column) for column in self.ns) // WINDOW
        chosen = np.unique(np.linspace(0, max(count - 1, 0), min(count, MOST_WINDOWS)).astype(int)) if count else []
        rows = [[np.quantile(c[w * WINDOW : (w + 1) * WINDOW], (0.25, 0.5, 0.75)) for c in self.ns] for w in chosen]
        return np.array(rows).reshape(len(rows), 9)


def sample(path: Path, real: bool) -> Sample:
    """The distributions of a trace's busiest stream."""
    line = timeline_of(read(path), 0)
    gpu = line.gpu
    busiest = np.bincount(gpu.stream[gpu.stream >= 0]).argmax()
    own = np.flatnonzero((gpu.stream == busiest) & (gpu.launch >= 0))
    own = own[np.argsort(gpu.start[own], kind="stable")]
    launched = np.sort(line.trace.ts[gpu.launch[own]])
    lengths, distances = (gpu.end - gpu.start)[own], np.diff(launched)
    gaps = gpu.start[own][1:] - gpu.end[own][:-1]
    return Sample(path.parent.name, real, tuple(np.log(np.maximum(ns, 100.0)) for ns in (lengths, distances, gaps)))


def distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The statistic of Kolmogorov and Smirnov: the largest distance of the two distributions."""
    points = np.sort(np.concatenate((a, b)))
    shares = (np.searchsorted(np.sort(one), points, side="right") / len(one) for one in (a, b))
    return float(np.max(np.abs(np.subtract(*shares))))


def to_nearest_real(samples: Sequence[Sample], kind: int, real: bool) -> float:
    """The median distance of real or simulated samples from the nearest other real one."""
    others = [other for other in samples if other.real]
    found = [
        min(distance(one.ns[kind], other.ns[kind]) for other in others if other.name != one.name)
        for one in samples
        if one.real is real
    ]
    return float(np.median(found))


def told_apart(samples: Sequence[Sample]) -> float:
    """How often the nearest window of another trace is of the same kind, real or simulated, both weighted alike."""
    windows = np.concatenate([one.windows for one in samples])
    of = np.repeat(np.arange(len(samples)), [len(one.windows) for one in samples])
    real = np.array([one.real for one in samples])[of]
    scaled = (windows - windows.mean(axis=0)) / windows.std(axis=0)
    apart = np.square(scaled[:, None] - scaled[None]).sum(axis=2)
    apart[of[:, None] == of[None]] = np.inf
    same = real[apart.argmin(axis=1)] == real
    return float((same[real].mean() + same[~real].mean()) / 2)


def _real() -> Iterator[Sample]:
    folder = Path(os.environ[VARIABLE])
    for run in sorted(path for path in folder.iterdir() if path.is_dir() and path.name != "damaged"):
        yield sample(min(file for file in run.iterdir() if ".json" in file.name), True)


def _simulated() -> Iterator[Sample]:
    for case in corpus(range(0, 2), ("medium",)):
        if case.name in SIMULATED and case.job.ranks == 1:
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / f"{case.name} {case.source} {case.seed}"
                folder.mkdir()
                _, text = next(simulate(case.job).traces())
                (folder / "rank0.json").write_text(text, encoding="utf-8")
                yield sample(folder / "rank0.json", False)


def realism() -> str:
    """The comparison as a table in Markdown, "" where there is no real trace."""
    if VARIABLE not in os.environ:
        return ""
    samples = [*_real(), *_simulated()]
    real = sum(one.real for one in samples)
    rows = [
        f"| {kind} | {to_nearest_real(samples, at, False):.2f} | {to_nearest_real(samples, at, True):.2f} |"
        for at, kind in enumerate(KINDS)
    ]
    return "\n".join(
        [
            f"{len(samples) - real} simulated traces against {real} real ones.",
            "",
            "| distribution | simulated to the nearest real trace | real to the nearest other real one |",
            "|---|---|---|",
            *rows,
            "",
            f"A nearest-neighbour classifier tells windows of {WINDOW} kernels apart in",
            f"{100 * told_apart(samples):.0f} % of the cases, where 50 % is a guess.",
        ]
    )


if __name__ == "__main__":
    print(realism() or f"set {VARIABLE} to the folder of real traces")
