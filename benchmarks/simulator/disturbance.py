"""The faults of a simulated job as factors and delays of every rank in a step."""

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .faults import Fault, Kind
from .job import Job, Resource

MS = 1_000_000
LATENCY_NS, RETURN_NS = 3_000, 2_000  # of a launch until its kernel starts; of a wait after its end
Factors = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Disturbance:
    """The faults of a job in one step, for all ranks at once: arrays of shape (ranks,)."""

    def __init__(self, job: Job, step: int) -> None:
        self._ranks, self._step = job.ranks, step
        self._faults = [f for f in job.faults if f.since_step <= step]
        self._free = job.free

    def kernels(self, memory_bound: bool) -> Factors:
        """Factor of a kernel's duration."""
        return self._kernels[memory_bound]

    @cached_property
    def _kernels(self) -> tuple[Factors, Factors]:
        return self._factor("slow_kernels"), self._factor("slow_kernels", "contention")

    @cached_property
    def host(self) -> Factors:
        """Factor of an operator's host time."""
        return self._factor("host") * self.costs("host")

    def costs(self, resource: Resource) -> int:
        """1, or 0 where the resource is free."""
        return int(resource not in self._free)

    @property
    def latency_ns(self) -> int:
        """From a launch to the start of its kernel."""
        return LATENCY_NS * self.costs("host")

    @property
    def return_ns(self) -> int:
        """From the end of what the host waits for until it goes on."""
        return RETURN_NS * self.costs("host")

    @cached_property
    def length(self) -> Factors:
        """Factor of the sequence length."""
        return self._factor("more_work", "rotating")

    def delay_ns(self, kind: Kind) -> NDArray[np.int64]:
        """Nanoseconds that the fault adds wherever it acts, 0 on the other ranks."""
        costs = self.costs("data" if kind == "data" else "host")
        return (self._factor(kind, neutral=0) * MS * costs).astype(np.int64)

    def extra_layers(self) -> list[Mask]:
        """The ranks that run a further layer, for each such layer."""
        count = self._factor("more_kernels", neutral=0)
        return [count > layer for layer in range(int(count.max()))]

    def link(self, members: NDArray[np.int64]) -> float:
        """Factor of the transfer within a group."""
        slow = [f for f in self._faults if f.kind == "slow_link" and _meets(f.ranks, members)]
        return max((f.amount for f in slow), default=1.0) * self.costs("communication")

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
