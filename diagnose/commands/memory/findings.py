"""Findings of a snapshot: memory that is free in pieces, a cache that is emptied, too little memory."""

from collections.abc import Iterator

from diagnose.commands.memory.answer import DeviceMemory, MemoryFinding, OutOfMemory
from diagnose.facts import spoken
from diagnose.probes.facts.environment import ALLOCATOR, ALLOCATOR_BEFORE, ALLOCATOR_RENAMED_IN

SPLIT_SHARE = 0.1  # of the reserved memory: below it, joining the pieces gains less than an allocator keeps anyway
FEWEST_CALLS = 3  # of empty_cache: one or two are around an evaluation or the beginning, more are in a loop
_RENAMED_IN = ".".join(map(str, ALLOCATOR_RENAMED_IN))
_EXPANDABLE = f"{ALLOCATOR}=expandable_segments:True (before torch {_RENAMED_IN} {ALLOCATOR_BEFORE})"


def findings_of(device: DeviceMemory, expandable: bool | None) -> Iterator[MemoryFinding]:
    """The findings of a device, the worst first; `expandable` is whether segments already are, None if unknown."""
    oom = device.out_of_memory
    if oom is not None:
        yield _out_of_memory(device, oom)
    if _in_pieces(device):
        yield _fragmentation(device, expandable)
    if (device.empty_cache_calls or 0) >= FEWEST_CALLS:
        yield MemoryFinding(
            name="empty-cache-in-the-loop",
            device=device.device,
            says=f"empty_cache gave memory back {device.empty_cache_calls:,} times in the history: each call waits for"
            " the device, and what was given back is asked of the driver again.",
            do="Take torch.cuda.empty_cache() out of the loop.",
        )
    if device.retries:
        yield MemoryFinding(
            name="allocator-retries",
            device=device.device,
            says=f"The allocator gave cached segments back {device.retries:,} times to go on: memory is all but full,"
            " and each time waits for the device.",
            do="Make room: a smaller micro-batch, activation checkpointing, or what `diagnose fit` says frees most.",
        )


def _in_pieces(device: DeviceMemory) -> bool:
    """Whether fragmented free memory kept the allocator from serving a request: an OOM, or retries."""
    oom = device.out_of_memory
    if oom is not None and oom.reserved_free_bytes is not None and oom.largest_free_block_bytes is not None:
        together = oom.reserved_free_bytes + oom.device_free_bytes
        return together >= oom.requested_bytes > oom.largest_free_block_bytes
    return bool(device.retries) and device.split_free_bytes >= SPLIT_SHARE * device.reserved_bytes


def _fragmentation(device: DeviceMemory, expandable: bool | None) -> MemoryFinding:
    free, reserved = spoken(device.split_free_bytes, "bytes"), spoken(device.reserved_bytes, "bytes")
    largest = spoken(device.largest_free_block_bytes, "bytes")
    says = (
        f"{free} of {reserved} reserved are free in segments that are in use too, the largest piece {largest}:"
        " free memory that requests do not fit into."
    )
    do = f"Set {_EXPANDABLE}: free pieces are joined."
    if expandable:
        do = "Segments are expandable already. Make sizes repeat: pad batches to a few lengths."
    elif expandable is None:
        do += " Where it is set already: make sizes repeat, pad batches to a few lengths."
    return MemoryFinding(name="fragmentation", device=device.device, says=says, do=do)


def _out_of_memory(device: DeviceMemory, oom: OutOfMemory) -> MemoryFinding:
    at = f" at {oom.file}:{oom.line} in {oom.function}" if oom.file else ""
    lay = ""
    if oom.reserved_free_bytes is not None:
        lay = (
            f", {spoken(oom.reserved_free_bytes, 'bytes')} reserved and free, the largest piece"
            f" {spoken(oom.largest_free_block_bytes, 'bytes')}"
        )
    first = oom.alive[0] if oom.alive else None
    most = ""
    if first is not None:
        where = f"{first.file}:{first.line} ({first.category})" if first.file else first.category
        most = f" Of what was in use, {spoken(first.share, 'share')} is of {where}."
    return MemoryFinding(
        name="out-of-memory",
        device=device.device,
        says=f"Out of memory: {spoken(oom.requested_bytes, 'bytes')} were asked for{at}, with"
        f" {spoken(oom.allocated_bytes, 'bytes')} in use{lay} and {spoken(oom.device_free_bytes, 'bytes')} left on the"
        " device.",
        do=f"Free or avoid what is largest.{most}",
    )
