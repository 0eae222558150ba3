"""A hand-built memory ledger for the report."""

from diagnose.diagnosis.capacity import Capacity, MemoryCount, MemoryPart, OptimizerStates, PlannedRoom, Room

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
    micro_batch_range=(8, 10),
    room=(Room(name="Liger kernels", freed_bytes=6 << 30, largest_micro_batch=13, micro_batch_range=(12, 15)),),
    planned=(
        PlannedRoom(
            rule="data-wait",
            freed_bytes=-(2 << 30),
            total_bytes=47 << 30,
            micro_batch=4,
            largest_micro_batch=8,
            micro_batch_range=(7, 9),
        ),
        PlannedRoom(rule="launch-bound", because="torch.compile decides what is kept for the backward pass"),
    ),
    optimizers=(
        OptimizerStates(
            name="AdamW",
            in_use=True,
            parameter_bytes=8,
            state_bytes=10 << 30,
            total_bytes=45 << 30,
            largest_micro_batch=9,
            micro_batch_range=(8, 10),
            numerics="",
        ),
        OptimizerStates(
            name="8-bit AdamW",
            in_use=False,
            parameter_bytes=2.03125,
            state_bytes=(10 << 30) // 4,
            total_bytes=37 << 30,
            largest_micro_batch=12,
            micro_batch_range=(11, 14),
            numerics="rounds the states",
        ),
    ),
)
CAPACITY = Capacity(counted=COUNTED)
