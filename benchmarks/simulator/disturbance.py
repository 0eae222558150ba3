"""The faults of a simulated job as factors and delays of every rank in a step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .faults import Fault, Kind
from .job import Job

MS = 1_000_000
Factors = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Disturbance:
    """The faults of a job in one step, for all ranks at once: arrays of shape (ranks,)."""

    def __init__(self, job: Job, step: int) -> None:
        self._ranks, self._step = job.ranks, step
        self._faults = [f for f in job.faults if f.since_step <= step]

    def kernels(self, memory_bound: bool) -> Factors:
        """Factor of a kernel's duration."""
        return self._factor("slow_kernels", "contention") if memory_bound else self._factor("slow_kernels")

    @property
    def host(self) -> Factors:
        """Factor of an operator's host time."""
        return self._factor("host")

    @property
    def length(self) -> Factors:
        """Factor of the sequence length."""
        return self._factor("more_work", "rotating")

    def delay_ns(self, kind: Kind) -> NDArray[np.int64]:
        """Nanoseconds that the fault adds wherever it acts, 0 on the other ranks."""
        return (self._factor(kind, neutral=0) * MS).astype(np.int64)

    def extra_layers(self) -> list[Mask]:
        """The ranks that run a further layer, for each such layer."""
        count = self._factor("more_kernels", neutral=0)
        return [count > layer for layer in range(int(count.max()))]

    def link(self, members: NDArray[np.int64]) -> float:
        """Factor of the transfer within a group."""
        slow = [f for f in self._faults if f.kind == "slow_link" and _meets(f.ranks, members)]
        return max((f.amount for f in slow), default=1.0)

    def _factor(self, *kinds: Kind, neutral: float = 1) -> Factors:
        factors = np.full(self._ranks, float(neutral))
        for fault in self._faults:
            if fault.kind in kinds:
                factors[list(self._where(fault))] = fault.amount
        return factors

    def _where(self, fault: Fault) -> Iterable[int]:
        return ((self._step * 3 + 1) % self._ranks,) if fault.kind == "rotating" else fault.ranks


def _meets(ranks: tuple[int, ...], members: NDArray[np.int64]) -> bool:
    """A single rank's own link, or the link between ranks: two of them have to be in the group."""
    return int(np.isin(members, ranks).sum()) >= min(len(ranks), 2)
