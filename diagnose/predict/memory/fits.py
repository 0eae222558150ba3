"""Whether a job fits its GPU: yes, tight or no, by the range that its memory estimate leaves."""

from dataclasses import dataclass
from typing import Literal

from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.ledgers import ledgers

FitsAnswer = Literal["yes", "tight", "no"]


@dataclass(frozen=True)
class Fits:
    """Memory of a job against that of its GPU.

    Attributes:
        likely_bytes: what the ledger counts.
        low_bytes: the least that such jobs take.
        high_bytes: the most.
        capacity_bytes: memory of the GPU.
        because: the measured rows that the range is taken from, or why there are none ("not calibrated: ...").
    """

    likely_bytes: int
    low_bytes: int
    high_bytes: int
    capacity_bytes: int
    because: str

    @property
    def answer(self) -> FitsAnswer:
        """Whether the range lies within the GPU's memory, across its edge, or beyond."""
        if self.low_bytes > self.capacity_bytes:
            return "no"
        return "yes" if self.high_bytes <= self.capacity_bytes else "tight"

    @property
    def runs(self) -> bool:
        """Whether the job is expected to run: the answer is yes or tight."""
        return self.answer != "no"

    @property
    def margin_bytes(self) -> int:
        """Memory of the GPU beyond what is likely; negative where the job lacks some."""
        return self.capacity_bytes - self.likely_bytes


@dataclass(frozen=True)
class MemorySpan:
    """How far the memory of jobs was from their estimate.

    Attributes:
        low: measured over estimated memory that one job in ten stays below.
        high: the same that one in ten exceeds.
        because: the rows that it stands on, or "not calibrated: " and why it stands on none like the job.
    """

    low: float
    high: float
    because: str


def span_of(plan: JobPlan) -> MemorySpan:
    """The span of the job's stack if jobs like it are among its rows, else the widest of any stack's."""
    ledger = plan.ledger
    unseen = [trait for trait, has in _traits(plan).items() if has and trait not in ledger.seen]
    if not unseen:
        known = "calibrated on" if ledger.measured else "bounded by rows that ran but state no memory:"
        low, high = ledger.span
        low = ledger.compiled_low if plan.compiled and ledger.compiled_low else low
        return MemorySpan(low, high, because=f"{known} {ledger.rows}")
    spans = [other.span for other in ledgers().values()]
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    return MemorySpan(low, high, f"not calibrated: no row of {ledger.name} has {' or '.join(unseen)}")


def _traits(plan: JobPlan) -> dict[str, bool]:
    """Traits of a job that change the count and that measured rows may lack."""
    sharding = plan.sharding
    return {
        "sharded states": sharding.zero == 1 and sharding.shards > 1,
        "sharded weights": sharding.zero > 1 and sharding.shards > 1,
        "tensor parallelism": sharding.tp > 1,
        "a pipeline": sharding.pp > 1,
        "checkpointing": plan.checkpointing != "none",
        "compile": plan.compiled,
        "fp8": plan.fp8,
        "Liger": plan.liger,
        "eager attention": plan.attention == "eager",
        "experts": plan.model.experts > 0,
        "adapters": plan.adapters is not None,
        "context parallelism": sharding.cp > 1,
    }
