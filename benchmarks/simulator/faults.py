"""What can go wrong in a simulated job."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal[
    "slow_kernels", "contention", "data", "host", "sync", "gc", "checkpoint", "more_work", "more_kernels", "slow_link",
    "rotating", "lengths", "packed", "late_stage", "uneven_stages", "none",
]  # fmt: skip

STAGE = "stage"  # the cause where a whole stage of a pipeline is to be named
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
    "more_kernels": (3, "more_work"),  # layers run once more forward
    "slow_link": (4, "link"),  # factor of the transfer in groups that hold one of the ranks
    "rotating": (1.3, ""),  # factor of the sequence length of another rank in each step
    "lengths": (0.5, ""),  # how far the sequence length of each micro-batch is from the mean, at most, as its part
    "packed": (4, ""),  # mean factor of attention, by the lengths of the documents in a packed sequence
    "late_stage": (1.5, STAGE),  # factor of all kernels of the stage: wider layers
    "uneven_stages": (1, STAGE),  # layers that the stage has beyond its own
    "none": (0, ""),
}
SHARED: tuple[Kind, ...] = ("more_work", "rotating")  # work that has to be done, if not by this rank then by others
DRAWN: tuple[Kind, ...] = ("lengths", "packed")  # work of every micro-batch, some more than others
STAGES: tuple[Kind, ...] = ("late_stage", "uneven_stages")
CAUSES = {kind: cause for kind, (_, cause) in KINDS.items()}


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong on `ranks` from the step at position `since_step` on; KINDS says what `size` is.

    Rotating and drawn faults ignore `ranks`. With two or more nodes a slow link is that of the ranks' node or pair.
    Drawn work that is `evened` is the same in sum, and equal in all micro-batches.
    """

    kind: Kind
    ranks: tuple[int, ...] = (0,)
    size: float | None = None
    since_step: int = 0
    evened: bool = False

    @property
    def amount(self) -> float:
        """The size, the kind's own unless stated."""
        return KINDS[self.kind][0] if self.size is None else self.size


def evened(faults: Collection[Fault], ranks: int) -> tuple[Fault, ...]:
    """The job without its faults: longer sequences are shared by all, everything else goes."""
    of_all = [1 + (fault.amount - 1) * _late(fault) / ranks for fault in faults if fault.kind in SHARED]
    drawn = (replace(fault, evened=True) for fault in faults if fault.kind in DRAWN)
    return (*(Fault("more_work", tuple(range(ranks)), factor) for factor in of_all), *drawn)


def cured(faults: Iterable[Fault], ranks: int) -> tuple[Fault, ...]:
    """The job without its faults, one late rank's longer sequences included; work that varies is shared by all."""
    return evened([fault for fault in faults if not CAUSES[fault.kind]], ranks)


def _late(fault: Fault) -> int:
    return 1 if fault.kind == "rotating" else len(fault.ranks)
