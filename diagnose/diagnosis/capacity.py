"""The device memory that a job needs, counted from the sizes of its model and compared with the recorded peaks."""

import msgspec

CONTEXT = "CUDA context"
"""The part that is not torch's: what the driver and loaded kernels take."""


class MemoryPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the memory ledger. `transient` parts are taken and given back in each step."""

    name: str
    bytes: int
    transient: bool


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """A change that makes room: what it frees, and the largest micro-batch, in sequences, that fits with it.

    `micro_batch_range` is [least, most] sequences, for what the ledger may be off by.
    """

    name: str
    freed_bytes: int
    largest_micro_batch: int
    micro_batch_range: tuple[int, int]


class PlannedRoom(msgspec.Struct, frozen=True, kw_only=True):
    """The effect on memory of one change of the plan, after the changes before it; changes without effect are left out.

    `freed_bytes` is negative if the change needs memory; `total_bytes` is the memory estimate with the change, at the
    plan's `micro_batch` at that point. All are null if the memory cannot be counted, for the reason in `because`; so
    are those of all later changes.
    """

    rule: str
    freed_bytes: int | None = None
    total_bytes: int | None = None
    micro_batch: int | None = None
    largest_micro_batch: int | None = None
    micro_batch_range: tuple[int, int] | None = None
    because: str = ""


class OptimizerStates(msgspec.Struct, frozen=True, kw_only=True):
    """The states that an optimizer keeps: the job's own if `in_use`, else those of an alternative.

    `parameter_bytes` are the bytes of states and master weight per parameter, before sharding; `state_bytes` are those
    on the rank, and `total_bytes` is the memory estimate with them. `numerics` is the effect of the change on training.
    """

    name: str
    in_use: bool
    parameter_bytes: float
    state_bytes: int
    total_bytes: int
    largest_micro_batch: int
    micro_batch_range: tuple[int, int]
    numerics: str


class MemoryCount(msgspec.Struct, frozen=True, kw_only=True):
    """The memory estimate of a rank, compared with the recorded peaks of torch's allocator.

    The parts add up to `total_bytes`; the allocator reserves all but the CUDA context, and tensors take all of that but
    fragmentation. A miss is (counted peak / recorded peak) - 1; null if that peak is not recorded. Micro-batches are in
    sequences of `seq_len` tokens.
    """

    parts: tuple[MemoryPart, ...]
    allocated_bytes: int
    reserved_bytes: int
    total_bytes: int
    device_bytes: int
    recorded_allocated_bytes: int | None
    recorded_reserved_bytes: int | None
    allocated_miss: float | None
    reserved_miss: float | None
    seq_len: int
    micro_batch: int
    largest_micro_batch: int
    micro_batch_range: tuple[int, int]
    room: tuple[Room, ...]
    planned: tuple[PlannedRoom, ...]
    optimizers: tuple[OptimizerStates, ...]

    @property
    def held(self) -> tuple[MemoryPart, ...]:
        """The parts that tensors hold all the time, the largest first."""
        kept = [part for part in self.parts if not part.transient and part.name != CONTEXT]
        return tuple(sorted(kept, key=lambda part: -part.bytes))


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The job's need of device memory, `counted` from its sizes; null if some are unknown, for the reason in
    `because`.
    """

    counted: MemoryCount | None = None
    because: str = ""


WITHOUT_RECORD = "the trace comes without a capture record"
NO_CAPACITY = Capacity(because="not judged: a bug in diagnose, in capacity")
