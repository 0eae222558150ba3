"""Judge a snapshot: memory in use at the peak of each device, the state of its free memory, actions of the job."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from reprlib import Repr

from diagnose.commands.memory.answer import Category, DeviceMemory, Held, MemoryAnswer, OutOfMemory
from diagnose.commands.memory.categories import category_of, line_of
from diagnose.commands.memory.findings import findings_of
from diagnose.commands.memory.replay import BEFORE, Live, Played, played, used_blocks
from diagnose.commands.memory.snapshot import NO_STACK, Block, Segment, Snapshot
from diagnose.commands.memory.usage import usage
from diagnose.formulas import share
from diagnose.trace.stacks import Frame

LINES_TOLD = 40
_EMPTIES = "empty_cache"
_BOUNDED = Repr()
_BOUNDED.maxlevel, _BOUNDED.maxdict = 2, 20
Key = tuple[Category, Frame | None]


def judged(snapshot: Snapshot, others: Sequence[str] = ()) -> MemoryAnswer:
    """Judge a snapshot; `others` are further snapshots of the same run, which are only named."""
    devices = tuple(_device(snapshot, device) for device in _devices(snapshot))
    settings = {str(name)[:80]: _setting(value) for name, value in list(snapshot.settings.items())[:50]}
    expandable = snapshot.settings.get("expandable_segments")
    return MemoryAnswer(
        file=snapshot.file,
        others=tuple(others),
        devices=devices,
        findings=tuple(finding for device in devices for finding in findings_of(device, _is_on(snapshot, expandable))),
        settings=settings,
        unknown=tuple(_unknown(snapshot, devices)),
        next=tuple(_next(devices)),
    )


def _setting(value: object) -> str:
    """The value as text of bounded length: nested values may contain themselves many times over."""
    return (value if isinstance(value, str) else _BOUNDED.repr(value))[:200]


def _is_on(snapshot: Snapshot, stated: object) -> bool | None:
    """Whether segments are expandable: if one is, else as the settings state; None is not known."""
    if any(segment.is_expandable for segment in snapshot.segments):
        return True
    return stated if isinstance(stated, bool) else None


def _devices(snapshot: Snapshot) -> list[int]:
    """The devices with memory or a history; segments that name no device are of the only one."""
    named = {segment.device for segment in snapshot.segments} | set(snapshot.histories)
    return sorted(named) or [0]


def _device(snapshot: Snapshot, device: int) -> DeviceMemory:
    segments = [segment for segment in snapshot.segments if segment.device == device]
    used = used_blocks(snapshot, device)
    reserved = sum(segment.total_bytes for segment in segments)
    history = snapshot.histories.get(device)
    through = played(history, used, reserved) if history is not None else None
    split, cached = _free(segments)
    retries, emptied = _given_back(snapshot, through)
    peak = through.peak_bytes if through is not None else None
    keyed = _keyed(snapshot, through.at_peak) if through is not None else {}
    allocated = sum(block.requested_bytes for block in used)
    return DeviceMemory(
        device=device,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        split_free_bytes=sum(split),
        cached_bytes=sum(cached),
        largest_free_block_bytes=max((*split, *cached), default=0),
        rounding_bytes=sum(block.size_bytes - block.requested_bytes for block in used),
        peak_bytes=peak,
        at_peak=_held(keyed, peak or 0, lambda key: (key[0], None)),
        lines_at_peak=_held(keyed, peak or 0, lambda key: key)[:LINES_TOLD],
        out_of_memory=_out_of_memory(snapshot, device, through, (*split, *cached)),
        retries=retries,
        empty_cache_calls=emptied,
        actions=len(history) if history is not None else 0,
        usage=usage(history, allocated, reserved) if history is not None else None,
    )


def _free(segments: Sequence[Segment]) -> tuple[list[int], list[int]]:
    """The sizes of free blocks in segments that are also in use, and of segments that are wholly free."""
    split: list[int] = []
    cached: list[int] = []
    for segment in segments:
        wholly = all(block.is_free for block in segment.blocks)
        (cached if wholly else split).extend(_joined(segment.blocks))
    return split, cached


def _joined(blocks: Sequence[Block]) -> Iterator[int]:
    """Sizes of the free pieces: adjacent free blocks are one; the allocator joins them unless a segment can grow."""
    for is_free, run in groupby(blocks, key=lambda block: block.is_free):
        if is_free:
            yield sum(block.size_bytes for block in run)


def _keyed(snapshot: Snapshot, in_use: Mapping[int, Live]) -> dict[Key, Live]:
    """Memory in use, by category and line of the user's code."""
    found: dict[Key, list[Live]] = defaultdict(list)
    for stack, live in in_use.items():
        found[_key(snapshot, stack)].append(live)
    return {key: Live(sum(x.bytes for x in each), sum(x.blocks for x in each)) for key, each in found.items()}


def _key(snapshot: Snapshot, stack: int) -> Key:
    if stack == BEFORE:
        return "before the history", None
    frames = snapshot.stacks[stack]
    return category_of(frames), line_of(frames)


def _held(keyed: Mapping[Key, Live], whole: int, by: Callable[[Key], Key]) -> tuple[Held, ...]:
    """Memory by `by`, the largest first; it adds up to the whole."""
    found: dict[Key, list[Live]] = defaultdict(list)
    for key, live in keyed.items():
        found[by(key)].append(live)
    rows = [
        Held(
            category=category,
            file=line.file if line else "",
            line=line.line if line else 0,
            function=line.function if line else "",
            bytes=(size := sum(live.bytes for live in each)),
            share=share(size, whole) or 0.0,
            blocks=sum(live.blocks for live in each),
        )
        for (category, line), each in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.category, row.file, row.line)))


def _out_of_memory(snapshot: Snapshot, device: int, through: Played | None, free: Sequence[int]) -> OutOfMemory | None:
    """The last OOM; the state of the free memory then is known if the snapshot was taken at once."""
    if through is None or through.oom is None:
        return None
    history = snapshot.histories[device]
    line = line_of(snapshot.stacks[history.stacks[through.oom]])
    at_once = through.oom_is_last
    return OutOfMemory(
        requested_bytes=history.sizes[through.oom],
        device_free_bytes=history.addresses[through.oom],
        allocated_bytes=through.oom_allocated_bytes,
        reserved_free_bytes=sum(free) if at_once else None,
        largest_free_block_bytes=max(free, default=0) if at_once else None,
        alive=_held(_keyed(snapshot, through.at_oom), through.oom_allocated_bytes, lambda key: key)[:LINES_TOLD],
        file=line.file if line else "",
        line=line.line if line else 0,
        function=line.function if line else "",
    )


def _given_back(snapshot: Snapshot, through: Played | None) -> tuple[int | None, int | None]:
    """Number of times that the allocator gave segments back by itself, and that the job did; None without stacks."""
    if through is None:
        return None, None
    if through.freed_by and all(stack == NO_STACK for stack in through.freed_by):
        return None, None
    asked = [any(frame.function == _EMPTIES for frame in snapshot.stacks[stack]) for stack in through.freed_by]
    return asked.count(False), asked.count(True)


def _unknown(snapshot: Snapshot, devices: Sequence[DeviceMemory]) -> Iterator[str]:
    if not snapshot.histories:
        yield "the peak and what allocated it: no history was recorded before the snapshot"
    if any(row.category == "before the history" for device in devices for row in device.at_peak):
        yield "what allocated the memory that was in use when the history began: its entries are bounded"
    if any(row.category == "no stack" for device in devices for row in device.at_peak):
        yield "which line allocated what has no stack: threads of the backward pass run no Python on a GPU"
    if any(device.retries is None and device.actions for device in devices):
        yield "who gave segments back: the history has no stacks"
    if any(device.out_of_memory and device.out_of_memory.reserved_free_bytes is None for device in devices):
        yield "how the free memory lay at the OOM: the job went on before the snapshot was taken"
    if "expandable_segments" not in snapshot.settings:
        yield "the allocator's settings: this format does not tell them"
    if snapshot.left_out:
        yield f"{snapshot.left_out:,} entries that are none of the format"


def _next(devices: Sequence[DeviceMemory]) -> Iterator[str]:
    if not any(device.actions for device in devices):
        yield (
            "Record the history, then take the snapshot: torch.cuda.memory._record_memory_history(max_entries=100000)"
            " before the model is made, torch.cuda.memory._dump_snapshot(FILE) after a few steps."
        )
