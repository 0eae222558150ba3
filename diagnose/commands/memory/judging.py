"""Judge a snapshot: memory in use at the peak of each device, the state of its free memory, actions of the job."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from reprlib import Repr

import numpy as np

from diagnose.commands.memory.answer import (
    Category,
    DeviceMemory,
    Held,
    MemoryAnswer,
    MemoryFinding,
    OutOfMemory,
    Usage,
)
from diagnose.commands.memory.replay import BEFORE, Live, Played, frees_by, played, used_blocks
from diagnose.commands.memory.snapshot import ACTIONS, NO_STACK, Block, History, Segment, Snapshot
from diagnose.facts import spoken
from diagnose.formulas import share
from diagnose.probes.facts.environment import ALLOCATOR, ALLOCATOR_BEFORE, ALLOCATOR_RENAMED_IN
from diagnose.trace.python_frames import is_of_library
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


# Curve of the memory of a device over its recorded history, in use and reserved, in few points.

MOST_POINTS = 240
_GROWING = ("segment_alloc", "segment_map")
_SHRINKING = ("segment_free", "segment_unmap")


def usage(history: History, allocated_bytes: int, reserved_bytes: int) -> Usage:
    """The maximum of either in each of at most `MOST_POINTS` parts of the history.

    Args:
        history: of one device.
        allocated_bytes: in use at the end of the history.
        reserved_bytes: likewise.
    """
    in_use = dict.fromkeys(["alloc"], 1) | {ACTIONS[frees_by(history)]: -1}
    reserved = dict.fromkeys(_GROWING, 1) | dict.fromkeys(_SHRINKING, -1)
    each = -(-len(history) // MOST_POINTS) if len(history) else 1
    return Usage(
        actions_per_point=each,
        allocated_bytes=tuple(_most(history, in_use, allocated_bytes, each)),
        reserved_bytes=tuple(_most(history, reserved, reserved_bytes, each)),
    )


def _most(history: History, signs: dict[str, int], end_bytes: int, each: int) -> Iterator[int]:
    """The maximum in each part. The memory before the first action is that at the end, less what was added."""
    sign_of = np.zeros(len(ACTIONS) + 2)  # doubles: exact to 8 PiB, and what is damaged does not wrap around
    for action, sign in signs.items():
        sign_of[ACTIONS.index(action)] = sign
    actions, sizes = np.frombuffer(history.actions, np.int8), np.frombuffer(history.sizes, np.int64)
    parts = [slice(begin, begin + each) for begin in range(0, len(history), each)]
    added = sum(int((sign_of[actions[part]] * sizes[part]).sum()) for part in parts)
    now = float(max(0, end_bytes - added))
    for part in parts:
        over = now + np.cumsum(sign_of[actions[part]] * sizes[part])
        yield int(max(0.0, now, over.max()))
        now = float(over[-1])


# Find the purpose of an allocation by the stack that made it, and the user's line.
#
# The allocator does not know what a tensor is: a stack shows it as far as it goes. The threads of the backward pass run
# no Python on a GPU, so what they allocate has no stack: mostly gradients, and recomputed activations.

_MOVES = {"_apply", "to", "cuda", "half", "float", "bfloat16", "convert", "to_empty"}
_CALLS = {"_call_impl", "_wrapped_call_impl"}
_RUNS_BACKWARD = {"backward", "_engine_run_backward"}
_MAKES = ("torch/nn/parameter.py", "torch/nn/init.py", "torch/nn/modules/", "transformers/modeling_utils.py")


def category_of(stack: Sequence[Frame]) -> Category:
    """The purpose of an allocation by its stack, innermost frame first."""
    if not stack:
        return "no stack"
    names = [(frame.file.replace("\\", "/"), frame.function) for frame in stack]
    if any("torch/optim/" in file or "deepspeed/ops/adam" in file for file, _ in names):
        return "optimizer"
    if _innermost_of_torch(names).find("torch/distributed/") >= 0 or ("", "_ddp_init_helper") in _bare(names):
        return "communication"
    if any("torch/utils/checkpoint.py" in file for file, _ in names):
        return "activations"
    if any(name in _RUNS_BACKWARD and ("torch/" in file) for file, name in names):
        return "gradients"
    if any(name in _CALLS and "torch/nn/modules/module.py" in file for file, name in names):
        return "activations"
    if any(name in _MOVES and "torch/nn/modules/module.py" in file for file, name in names):
        return "parameters"
    if any(part in file for file, _ in names for part in _MAKES):
        return "parameters"
    return "activations" if any("torch/nn/functional.py" in file for file, _ in names) else "other"


def line_of(stack: Sequence[Frame]) -> Frame | None:
    """The innermost line of the user's own code."""
    return next((frame for frame in stack if not is_of_library(frame.file)), None)


def _innermost_of_torch(names: Sequence[tuple[str, str]]) -> str:
    return next((file for file, _ in names if "torch/" in file), "")


def _bare(names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    return {("", name) for _, name in names}


# Findings of a snapshot: memory that is free in pieces, a cache that is emptied, too little memory.

SPLIT_SHARE = 0.1  # of the reserved memory: below it, joining the pieces gains less than an allocator keeps anyway
FEWEST_CALLS = 3  # of empty_cache: one or two are around an evaluation or the beginning, more are in a loop
_RENAMED_IN = ".".join(map(str, ALLOCATOR_RENAMED_IN))
_EXPANDABLE = f"{ALLOCATOR}=expandable_segments:True (before torch {_RENAMED_IN} {ALLOCATOR_BEFORE})"


def findings_of(device: DeviceMemory, expandable: bool | None) -> Iterator[MemoryFinding]:
    """The findings of a device, the worst first; `expandable` is whether segments already are, None if unknown."""
    oom = device.out_of_memory
    if oom is not None:
        yield _ran_out(device, oom)
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


def _ran_out(device: DeviceMemory, oom: OutOfMemory) -> MemoryFinding:
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
