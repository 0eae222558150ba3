"""What a job takes of device memory by the sizes of its model, held against what was recorded."""

import msgspec


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
    """What a change of the plan does to memory, made after those before it; changes that do nothing are left out.

    `freed_bytes` is negative where the change needs memory, `total_bytes` the ledger with it, at the `micro_batch` that
    the plan has then. All are null where `because` says why its memory cannot be counted, as of all changes after it.
    """

    rule: str
    freed_bytes: int | None = None
    total_bytes: int | None = None
    micro_batch: int | None = None
    largest_micro_batch: int | None = None
    micro_batch_range: tuple[int, int] | None = None
    because: str = ""


class OptimizerStates(msgspec.Struct, frozen=True, kw_only=True):
    """What an optimizer keeps: the job's own where `in_use`, else one that it may be changed for.

    `parameter_bytes` are of states and master weight of each parameter, before ranks divide them; `state_bytes` are of
    the rank, and `total_bytes` the ledger with them. `numerics` is what the change does to training.
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
    """The memory ledger of a rank against the recorded peaks of torch's allocator.

    The parts add up to `total_bytes`; the allocator reserves all but the CUDA context, and tensors take all of that but
    fragmentation. A miss is the counted peak over the recorded one, less one; null where that peak is not recorded.
    Micro-batches are in sequences of `seq_len` tokens.
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


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What the job takes of device memory, `counted` by its sizes; null where `because` says what is not known."""

    counted: MemoryCount | None = None
    because: str = ""


WITHOUT_RECORD = "the trace comes without a capture record"
NO_CAPACITY = Capacity(because="not judged: a bug in diagnose, in capacity")
