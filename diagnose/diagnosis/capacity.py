"""What a job takes of device memory by the sizes of its model, held against what was recorded."""

import msgspec


class MemoryPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the memory ledger. `transient` parts are taken and given back in each step."""

    name: str
    bytes: int
    transient: bool


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """A change that makes room: what it frees, and the largest micro-batch, in sequences, that fits with it."""

    name: str
    freed_bytes: int
    largest_micro_batch: int


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The memory ledger of a rank against the recorded peaks of torch's allocator.

    `because` says why there is none; otherwise it is "". The parts add up to `total_bytes`; the allocator reserves all
    but the CUDA context, and tensors take all of that but fragmentation. A miss is the counted peak over the recorded
    one, less one; null where that peak is not recorded. Micro-batches are in sequences of `seq_len` tokens.
    """

    because: str = ""
    parts: tuple[MemoryPart, ...] = ()
    allocated_bytes: int = 0
    reserved_bytes: int = 0
    total_bytes: int = 0
    device_bytes: int = 0
    recorded_allocated_bytes: int | None = None
    recorded_reserved_bytes: int | None = None
    allocated_miss: float | None = None
    reserved_miss: float | None = None
    seq_len: int = 0
    micro_batch: int = 0
    largest_micro_batch: int = 0
    room: tuple[Room, ...] = ()


NO_CAPACITY = Capacity(because="not judged: a defect of diagnose in capacity")
