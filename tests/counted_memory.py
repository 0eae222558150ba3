"""A hand-built memory ledger for the report."""

from diagnose.diagnosis.capacity import Capacity, MemoryCount, MemoryPart, Room

COUNTED = MemoryCount(
    parts=(
        MemoryPart(name="weights", bytes=5 << 30, transient=False),
        MemoryPart(name="norm", bytes=1, transient=True),
    ),
    allocated_bytes=40 << 30,
    reserved_bytes=44 << 30,
    total_bytes=45 << 30,
    device_bytes=80 << 30,
    recorded_allocated_bytes=50 << 30,
    recorded_reserved_bytes=None,
    allocated_miss=-0.2,
    reserved_miss=None,
    seq_len=1024,
    micro_batch=4,
    largest_micro_batch=9,
    room=(Room(name="Liger kernels", freed_bytes=6 << 30, largest_micro_batch=13),),
)
CAPACITY = Capacity(counted=COUNTED)
