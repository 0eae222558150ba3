"""Judge a snapshot: memory in use at the peak of each device, the state of its free memory, actions of the job."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from reprlib import Repr

import numpy as np

from diagnose.commands.memory.answer import (
    Category,
    DeviceMemory,
    Emptied,
    Held,
    MemoryAnswer,
    OutOfMemory,
)
from diagnose.commands.memory.backward import with_calls_of_backward
from diagnose.commands.memory.curve import usage
from diagnose.commands.memory.evaluation import kept_by_evaluation
from diagnose.commands.memory.findings import findings_of
from diagnose.commands.memory.free_memory import free_pieces, free_pieces_after
from diagnose.commands.memory.giving_back import GivenBack, given_back
from diagnose.commands.memory.replay import ALLOC, BEFORE, Live, Played, played, used_blocks, with_stacks_of
from diagnose.commands.memory.snapshot import NO_STACK, Block, History, Segment, Snapshot
from diagnose.commands.memory.stacks import Origin, origins_of, setting_that_empties
from diagnose.formulas import share
from diagnose.report.views.words import counted

LINES_TOLD = 40
_BOUNDED = Repr()
_BOUNDED.maxlevel, _BOUNDED.maxdict = 2, 20
_BEFORE = Origin("before the history", None)


@dataclass(frozen=True)
class _Through:
    """A history that was played through."""

    history: History
    played: Played
    given_back: GivenBack


def judged(snapshot: Snapshot, others: Sequence[str] = ()) -> MemoryAnswer:
    """Judge a snapshot; `others` are further snapshots of the same run, which are only named."""
    snapshot = with_calls_of_backward(snapshot)
    origins = origins_of(snapshot.stacks)
    devices = tuple(_device(snapshot, origins, device) for device in _devices(snapshot))
    settings = {str(name)[:80]: _setting(value) for name, value in list(snapshot.settings.items())[:50]}
    expandable = snapshot.settings.get("expandable_segments")
    return MemoryAnswer(
        file=snapshot.file,
        others=tuple(others),
        devices=devices,
        findings=tuple(finding for device in devices for finding in findings_of(device, _is_on(snapshot, expandable))),
        settings=settings,
        unknown=tuple(_unknown(snapshot, devices)),
        next=tuple(_next(snapshot)),
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
    """The devices with memory or a history."""
    named = {segment.device for segment in snapshot.segments} | set(snapshot.histories)
    return sorted(named) or [0]


def _device(snapshot: Snapshot, origins: Sequence[Origin], device: int) -> DeviceMemory:
    segments = [segment for segment in snapshot.segments if segment.device == device]
    shared = [segment for segment in segments if not segment.is_private]
    used = used_blocks(snapshot, device)
    allocated = sum(block.requested_bytes for block in used)
    reserved = sum(segment.total_bytes for segment in segments)
    through = _through(snapshot, used, reserved, device)
    split, cached = free_pieces(shared)
    peak = through.played.peak_bytes if through else None
    keyed = _by_origin(origins, through.played.at_peak) if through else {}
    return DeviceMemory(
        device=device,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        split_free_bytes=sum(split),
        cached_bytes=sum(cached),
        largest_free_block_bytes=max((*split, *cached), default=0),
        private_pool_bytes=reserved - sum(segment.total_bytes for segment in shared),
        private_pool_free_bytes=sum(sum(free) for free in free_pieces([s for s in segments if s.is_private])),
        rounding_bytes=sum(block.size_bytes - block.requested_bytes for block in used),
        peak_bytes=peak,
        at_peak=_held(keyed, peak or 0, lambda origin: Origin(origin.category, None)),
        lines_at_peak=_held(keyed, peak or 0, lambda origin: origin)[:LINES_TOLD],
        out_of_memory=_out_of_memory(origins, through, shared) if through else None,
        retries=through.given_back.known("allocator") if through else None,
        empty_cache_calls=through.given_back.known("job") if through else None,
        given_back_by_unknown=through.given_back.by.get("unknown", 0) if through else 0,
        emptied=_emptied(snapshot, origins, through.given_back) if through else None,
        kept_by_evaluation=kept_by_evaluation(through.history, through.played, snapshot.stacks, origins)
        if through
        else None,
        actions=len(through.history) if through else 0,
        usage=usage(through.history, used, allocated, reserved, [origin.category for origin in origins])
        if through
        else None,
    )


def _through(snapshot: Snapshot, used: Sequence[Block], reserved: int, device: int) -> _Through | None:
    if device not in snapshot.histories:
        return None
    history = with_stacks_of(snapshot.histories[device], used)
    return _Through(history, played(history, used, reserved), given_back(history, snapshot.stacks))


def _by_origin(origins: Sequence[Origin], in_use: Mapping[int, Live]) -> dict[Origin, Live]:
    """Memory in use, by what allocated it."""
    found: dict[Origin, list[Live]] = defaultdict(list)
    for stack, live in in_use.items():
        found[_BEFORE if stack == BEFORE else origins[stack]].append(live)
    return {origin: Live(sum(x.bytes for x in each), sum(x.blocks for x in each)) for origin, each in found.items()}


def _held(keyed: Mapping[Origin, Live], whole: int, by: Callable[[Origin], Origin]) -> tuple[Held, ...]:
    """Memory by `by`, the largest first; it adds up to the whole."""
    found: dict[Origin, list[Live]] = defaultdict(list)
    for origin, live in keyed.items():
        found[by(origin)].append(live)
    rows = [
        Held(
            category=origin.category,
            file=origin.at.file,
            line=origin.at.line,
            function=origin.at.function,
            below=origin.below,
            bytes=(size := sum(live.bytes for live in each)),
            share=share(size, whole) or 0.0,
            blocks=sum(live.blocks for live in each),
        )
        for origin, each in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.category, row.file, row.line, row.below)))


def _out_of_memory(origins: Sequence[Origin], through: _Through, shared: Sequence[Segment]) -> OutOfMemory | None:
    """The last OOM, and how the free memory lay then."""
    row, found, history = through.played.oom, through.played, through.history
    if row is None:
        return None
    stack = history.stacks[row]
    asked = origins[stack]
    free = free_pieces_after(row, history, shared)
    return OutOfMemory(
        requested_bytes=history.sizes[row],
        device_free_bytes=history.addresses[row],
        allocated_bytes=found.oom_allocated_bytes,
        reserved_bytes=found.oom_reserved_bytes,
        reserved_free_bytes=None if free is None else sum(free),
        largest_free_block_bytes=None if free is None else max(free, default=0),
        alive=_held(_by_origin(origins, found.at_oom), found.oom_allocated_bytes, lambda origin: origin)[:LINES_TOLD],
        file=asked.at.file,
        line=asked.at.line,
        function=asked.at.function,
        in_evaluation=None if stack == NO_STACK else asked.category == "evaluation",
    )


def _emptied(snapshot: Snapshot, origins: Sequence[Origin], given: GivenBack) -> Emptied | None:
    """The line that empties the cache most often; None if no stack shows one."""
    told = {stack: count for stack, count in given.stacks.items() if stack != NO_STACK}
    if not told:
        return None
    most = max(told, key=lambda stack: told[stack])
    at = origins[most].at
    return Emptied(
        file=at.file,
        line=at.line,
        function=at.function,
        setting=setting_that_empties(snapshot.stacks[most]),
    )


def _unknown(snapshot: Snapshot, devices: Sequence[DeviceMemory]) -> Iterator[str]:
    if not snapshot.segments and not snapshot.histories:
        yield "what is in use and reserved: the snapshot has no segments and no history (as with cudaMallocAsync)"
    if not snapshot.histories:
        yield "the peak and what allocated it: no history was recorded before the snapshot"
    if _is_at_peak("before the history", devices):
        yield "what allocated the memory that was in use when the history began: its entries are bounded"
    if _is_without_stacks(snapshot):
        if any(row.file or row.below for device in devices for row in device.lines_at_peak):
            yield 'what allocated what was freed since the peak: only blocks in use have stacks (context="state")'
        else:
            yield "what allocated the peak: the history was recorded without stacks (context=None)"
    elif _is_at_peak("no stack", devices):
        yield "which line allocated what has no stack: threads of the backward pass run no Python on a GPU"
    if times := sum(device.given_back_by_unknown for device in devices):
        yield (
            f"who gave segments back {counted(times, 'time')}: no stack says so, and the order of the actions fits"
            " the allocator and empty_cache"
        )
    if any(device.out_of_memory and device.out_of_memory.reserved_free_bytes is None for device in devices):
        yield "how the free memory lay at the OOM: this format does not say where segments lie"
    if "expandable_segments" not in snapshot.settings:
        yield "the allocator's settings: this format does not tell them"
    if snapshot.left_out:
        yield f"{snapshot.left_out:,} entries that are none of the format"


def _is_at_peak(category: Category, devices: Sequence[DeviceMemory]) -> bool:
    return any(row.category == category for device in devices for row in device.at_peak)


def _is_without_stacks(snapshot: Snapshot) -> bool:
    """Whether there are allocations in the histories, and none has a stack."""
    each = [
        np.frombuffer(history.stacks, np.int32)[np.frombuffer(history.actions, np.int8) == ALLOC]
        for history in snapshot.histories.values()
    ]
    return any(len(stacks) for stacks in each) and not any(stacks.any() for stacks in each)


def _next(snapshot: Snapshot) -> Iterator[str]:
    if not snapshot.histories:
        yield (
            "Record the history, then take the snapshot: torch.cuda.memory._record_memory_history(max_entries=100000)"
            " before the model is made, torch.cuda.memory._dump_snapshot(FILE) after a few steps."
        )
    elif _is_without_stacks(snapshot):
        yield 'Record the stacks too: torch.cuda.memory._record_memory_history(context="all", max_entries=100000).'
