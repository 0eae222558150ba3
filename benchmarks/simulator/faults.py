"""What can go wrong in a simulated job, as factors and delays of every rank in a step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .job import Job

Kind = Literal[
    "slow_kernels", "contention", "data", "host", "sync", "gc", "checkpoint", "more_work", "more_kernels", "slow_link",
    "rotating", "none",
]  # fmt: skip
MS = 1_000_000

# kind: (size unless stated, the cause as `diagnose.diagnosis.LatenessCause`, "" where no rank is to be named)
KINDS: dict[Kind, tuple[float, str]] = {
    "slow_kernels": (1.3, "slower_kernels"),  # factor of all kernels: clocks, heat
    "contention": (2.5, "slower_kernels"),  # factor of the memory-bound kernels
    "data": (5, "data"),  # ms of each batch
    "host": (4, "host"),  # factor of the operators' host time
    "sync": (0.8, "host"),  # ms of host work after a read-back in every layer
    "gc": (7, "gc"),  # ms of collection in the forward pass
    "checkpoint": (5, "checkpoint"),  # ms of writing at the end of the step
    "more_work": (1.3, "more_work"),  # factor of the sequence length
    "more_kernels": (3, "more_work"),  # layers run once more
    "slow_link": (4, "link"),  # factor of the transfer in groups that hold one of the ranks
    "rotating": (1.3, ""),  # factor of the sequence length of another rank in each step
    "none": (0, ""),
}
CAUSES = {kind: cause for kind, (_, cause) in KINDS.items()}
Factors = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong on `ranks` from the step at position `since_step` on; KINDS says what `size` is.

    A rotating fault ignores `ranks`. With two or more nodes a slow link is that of the ranks' node or pair.
    """

    kind: Kind
    ranks: tuple[int, ...] = (0,)
    size: float | None = None
    since_step: int = 0

    @property
    def amount(self) -> float:
        """The size, the kind's own unless stated."""
        return KINDS[self.kind][0] if self.size is None else self.size


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
        found = np.full(self._ranks, float(neutral))
        for fault in self._faults:
            if fault.kind in kinds:
                found[list(self._where(fault))] = fault.amount
        return found

    def _where(self, fault: Fault) -> Iterable[int]:
        return ((self._step * 3 + 1) % self._ranks,) if fault.kind == "rotating" else fault.ranks


def _meets(ranks: tuple[int, ...], members: NDArray[np.int64]) -> bool:
    """A single rank's own link, or the link between ranks: two of them have to be in the group."""
    return int(np.isin(members, ranks).sum()) >= min(len(ranks), 2)
