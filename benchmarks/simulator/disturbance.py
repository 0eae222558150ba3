"""The faults of a simulated job as factors and delays of every rank in a step."""

from collections.abc import Iterable
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .faults import Fault, Kind
from .job import Job, Resource

MS = 1_000_000
DOCUMENTS = 0.8  # sigma of the log-normal work of attention in packed sequences
LATENCY_NS, RETURN_NS = 3_000, 2_000  # of a launch until its kernel starts; of a wait after its end
Factors = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Disturbance:
    """The faults of a job in one step, for all ranks at once: arrays of shape (ranks,)."""

    def __init__(self, job: Job, step: int) -> None:
        self._ranks, self._step, self._job = job.ranks, step, job
        self._faults = [f for f in job.faults if f.since_step <= step]
        self._free = job.free
        self._work: dict[float, Factors] = {}

    def kernels(self, memory_bound: bool) -> Factors:
        """Factor of a kernel's duration."""
        return self._kernels[memory_bound]

    @cached_property
    def _kernels(self) -> tuple[Factors, Factors]:
        slower = self._factor("slow_kernels", "late_stage")
        return slower, slower * self._factor("contention")

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
    def lengths(self) -> Factors:
        """Factor of the length of each micro-batch's sequences, which are multiples of 8: (ranks, micro-batches)."""
        drawn = [1 + fault.amount * self._drawn("uniform", -1, 1) for fault in self._of("lengths")]
        factor = self._factor("more_work", "rotating")[:, None] * (
            drawn[0] if drawn else np.ones((1, self._job.micros))
        )
        return np.asarray(np.rint(self._job.tokens * factor / 8) * 8 / self._job.tokens)

    def work(self, power: float, micro: int) -> Factors:
        """Factor of a kernel's duration by the sequences of a micro-batch, of whose length it is a power."""
        if power not in self._work:
            self._work[power] = self._works(power)
        return self._work[power][:, micro]

    def _works(self, power: float) -> Factors:
        factor = self.lengths**power
        if power > 1:
            for fault in self._of("packed"):
                factor = factor * fault.amount * self._drawn("lognormal", -(DOCUMENTS**2) / 2, DOCUMENTS)
        even = any(fault.evened for fault in self._faults)
        return np.full_like(factor, factor.mean()) if even else factor

    def _of(self, kind: Kind) -> list[Fault]:
        return [fault for fault in self._faults if fault.kind == kind]

    def _drawn(self, how: Literal["uniform", "lognormal"], *about: float) -> Factors:
        """A number for each micro-batch of each replica of the model: (ranks, micro-batches)."""
        rng = np.random.default_rng((self._job.seed, self._step, 2))
        drawn: Factors = getattr(rng, how)(*about, (self._ranks, self._job.micros))[self._job.replica]
        return drawn

    def delay_ns(self, kind: Kind) -> NDArray[np.int64]:
        """Nanoseconds that the fault adds wherever it acts, 0 on the other ranks."""
        costs = self.costs("data" if kind == "data" else "host")
        return (self._factor(kind, neutral=0) * MS * costs).astype(np.int64)

    def extra_layers(self) -> list[Mask]:
        """The ranks that run a further layer in each forward pass, for each such layer."""
        return self._layers("more_kernels")

    def stage_layers(self) -> list[Mask]:
        """The ranks that have a further layer, for each such layer."""
        return self._layers("uneven_stages")

    def _layers(self, kind: Kind) -> list[Mask]:
        count = self._factor(kind, neutral=0)
        return [count > layer for layer in range(int(count.max()))]

    def link(self, members: NDArray[np.int64]) -> float:
        """Factor of the transfer within a group."""
        slow = [f for f in self._faults if f.kind == "slow_link" and _meets(f.ranks, members)]
        return max((f.amount for f in slow), default=1.0) * self.costs("communication")

    def _factor(self, *kinds: Kind, neutral: float = 1) -> Factors:
        factors = np.full(self._ranks, float(neutral))
        for fault in self._faults:
            if fault.kind in kinds:
                where = list(self._where(fault))
                factors[where] = fault.amount * (factors[where] if neutral else 1)
        return factors

    def _where(self, fault: Fault) -> Iterable[int]:
        return ((self._step * 3 + 1) % self._ranks,) if fault.kind == "rotating" else fault.ranks


def _meets(ranks: tuple[int, ...], members: NDArray[np.int64]) -> bool:
    """A single rank's own link, or the link between ranks: two of them have to be in the group."""
    return int(np.isin(members, ranks).sum()) >= min(len(ranks), 2)
