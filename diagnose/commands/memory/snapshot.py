"""A snapshot of torch's caching allocator as columns: the reserved memory, its blocks, and the actions before.

The format is that of `torch.cuda.memory._snapshot()` as `_dump_snapshot` pickles it: segments with their blocks, the
last actions of each device if the history was recorded, and the allocator's settings. Entries become rows as they are
read, so that a file of any size takes some thirty bytes for each of them, and each stack is kept once.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from diagnose import decoding
from diagnose.decoding import unpickling
from diagnose.decoding.opcodes import UnsoundPickle
from diagnose.errors import UserError, shown_path
from diagnose.trace.stacks import Frame

ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap")
OOM, OTHER = len(ACTIONS), len(ACTIONS) + 1
MOST_BYTES = 1 << 50
NO_STACK = 0
_NUMBER_OF = {name: number for number, name in enumerate((*ACTIONS, "oom"))}
_LARGEST = 1 << 62
_MOST_KNOWN = 100_000


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a segment. `stack` is that of its allocation, by number; `is_used` from then until it is freed."""

    address: int
    size_bytes: int
    requested_bytes: int
    is_used: bool
    is_free: bool
    stack: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Memory that the allocator has reserved from the driver. `device` is -1 if an old format does not state it.

    `is_private` if it belongs to a pool of its own, as CUDA graphs have: other requests cannot use what is free in it.
    """

    device: int
    address: int
    total_bytes: int
    is_expandable: bool
    is_private: bool
    blocks: tuple[Block, ...]


@dataclass
class History:
    """The last actions of one device, the oldest first: a row each.

    The address of an OOM is the free bytes of the device. Times are in microseconds, -1 if an action has none.
    """

    actions: "array[int]" = field(default_factory=lambda: array("b"))
    addresses: "array[int]" = field(default_factory=lambda: array("q"))
    sizes: "array[int]" = field(default_factory=lambda: array("q"))
    stacks: "array[int]" = field(default_factory=lambda: array("i"))
    times: "array[int]" = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.actions)


@dataclass
class Snapshot:
    """The content of a file.

    Attributes:
        file: its name.
        segments: all that is reserved, of every device.
        histories: by device, the actions that were recorded; empty if none were.
        stacks: by number, the frames of a stack, the innermost first; number 0 stands for no stack.
        settings: of the allocator, if the format has them.
        left_out: number of entries that are invalid in the format.
    """

    file: str
    segments: list[Segment]
    histories: dict[int, History]
    stacks: list[tuple[Frame, ...]]
    settings: Mapping[str, Any]
    left_out: int


def read(path: Path) -> Snapshot:
    """The snapshot in a file.

    Raises:
        UserError: it is no snapshot, or damaged.
    """
    try:
        with path.open("rb", buffering=1 << 20) as file:
            if not unpickling.is_pickle(file.read(2)):
                raise _no_snapshot(path, "it is no pickle")
            file.seek(0)
            rows = _Rows()
            value = unpickling.read(file, rows.reduced)
    except OSError as error:
        raise UserError("cannot read the snapshot", where=shown_path(path), why=error.strerror or "") from error
    except UnsoundPickle as error:
        raise _no_snapshot(path, str(error)) from error
    if not isinstance(value, Mapping) or not isinstance(value.get("segments"), list):
        raise _no_snapshot(path, "it has no list of segments")
    return _snapshot(path, value, rows)


class _Rows:
    """The columns that dictionaries are reduced to when complete: frame numbers, history rows, blocks and segments."""

    def __init__(self) -> None:
        self.history = History()
        self.stacks: dict[tuple[int, ...], int] = {(): NO_STACK}
        self.frames: dict[Frame, int] = {}
        self.left_out = 0
        self._numbers: dict[int, tuple[Any, int]] = {}  # of tuples of frames, by identity

    def reduced(self, entry: dict[Any, Any]) -> Any:
        if "filename" in entry and "line" in entry:
            return self._frame(entry)
        if "action" in entry and "size" in entry:
            return self._action(entry)
        if "blocks" in entry and "total_size" in entry:
            return self._segment(entry)
        if "size" in entry and "state" in entry:
            return self._block(entry)
        return entry

    def _frame(self, entry: Mapping[Any, Any]) -> int:
        file, line, name = entry["filename"], entry["line"], entry.get("name")
        frame = Frame(_text(file), _bytes(line) or 0, _text(name))
        return self.frames.setdefault(frame, len(self.frames))

    def _stack(self, frames: Any) -> int:
        known, number = self._numbers.get(id(frames), (None, NO_STACK))
        if known is frames:
            return number
        if not isinstance(frames, list | tuple):
            return NO_STACK
        key = tuple(number for number in frames if type(number) is int)
        number = self.stacks.setdefault(key, len(self.stacks))
        if type(frames) is tuple:  # which nothing is added to, and which many entries share
            if len(self._numbers) > _MOST_KNOWN:
                self._numbers.clear()
            self._numbers[id(frames)] = frames, number
        return number

    def _action(self, entry: Mapping[Any, Any]) -> int:
        """Add the action as the last row of the history; return 0, or -1 if it is invalid."""
        kind = entry["action"]
        number = _NUMBER_OF.get(kind, OTHER) if isinstance(kind, str) else None
        size = _bytes(entry["size"])
        address = entry.get("device_free" if number == OOM else "addr", 0)
        if number is None or size is None or type(address) is not int or not 0 <= address < _LARGEST:
            self.left_out += 1
            return -1
        self.history.actions.append(number)
        self.history.addresses.append(address)
        self.history.sizes.append(size)
        self.history.stacks.append(self._stack(entry.get("frames")))
        self.history.times.append(_time(entry.get("time_us")))
        return 0

    def _block(self, entry: Mapping[Any, Any]) -> Block | None:
        """The block; old formats have the requested size and the stack in a list of one entry."""
        earlier = entry.get("history")
        first = earlier[0] if isinstance(earlier, list | tuple) and earlier else None
        asked = first if isinstance(first, Mapping) else entry
        size, address = _bytes(entry["size"]), entry.get("address", asked.get("addr", -1))
        if size is None or type(address) is not int or not -1 <= address < _LARGEST:
            self.left_out += 1
            return None
        requested = _bytes(asked.get("requested_size", asked.get("real_size", size)))
        state = entry["state"]
        return Block(
            address=address,
            size_bytes=size,
            requested_bytes=size if requested is None else min(requested, size),
            is_used=state == "active_allocated",
            is_free=state == "inactive",
            stack=self._stack(asked.get("frames")),
        )

    def _segment(self, entry: Mapping[Any, Any]) -> Segment | None:
        total, device, blocks = _bytes(entry["total_size"]), entry.get("device", -1), entry["blocks"]
        if total is None or type(device) is not int or not isinstance(blocks, list | tuple):
            self.left_out += 1
            return None
        address = entry.get("address", -1)
        return Segment(
            device=device if 0 <= device < 1024 else -1,
            address=address if type(address) is int and 0 <= address < _LARGEST else -1,
            total_bytes=total,
            is_expandable=entry.get("is_expandable") is True,
            is_private=_is_private(entry.get("segment_pool_id")),
            blocks=tuple(block for block in blocks if isinstance(block, Block)),
        )


def _snapshot(path: Path, value: Mapping[Any, Any], rows: _Rows) -> Snapshot:
    frames = list(rows.frames)
    stacks = [tuple(frames[number] for number in key if 0 <= number < len(frames)) for key in rows.stacks]
    settings = value.get("allocator_settings")
    histories = _divided(value.get("device_traces"), rows.history)
    only = next(iter(histories)) if len(histories) == 1 else -1
    segments = [segment for segment in value["segments"] if isinstance(segment, Segment)]
    return Snapshot(
        file=shown_path(path),
        segments=[replace(segment, device=only) if segment.device < 0 else segment for segment in segments],
        histories=histories,
        stacks=stacks,
        settings=settings if isinstance(settings, dict) else {},
        left_out=rows.left_out,
    )


def _divided(traces: Any, history: History) -> dict[int, History]:
    """The rows by device: they were read one device after the other, each with a list of placeholders as long."""
    found: dict[int, History] = {}
    at = 0
    for device, entries in enumerate(traces if isinstance(traces, list | tuple) else ()):
        count = sum(entry == 0 for entry in entries if type(entry) is int) if isinstance(entries, list | tuple) else 0
        if count and count == len(history):  # one device alone: its rows are not copied
            return {device: history}
        if count:
            part = slice(at, at + count)
            columns = history.actions, history.addresses, history.sizes, history.stacks, history.times
            found[device] = History(*(column[part] for column in columns))
        at += count
    return found


def _is_private(pool: Any) -> bool:
    """Whether the id of a pool, two numbers, is another than that of the pool of all requests."""
    return isinstance(pool, list | tuple) and len(pool) == 2 and any(type(part) is int and part for part in pool)


def _bytes(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_BYTES else None


def _time(value: Any) -> int:
    return value if type(value) is int and 0 <= value < _LARGEST else -1


def _text(value: Any) -> str:
    return decoding.encodable(value[: decoding.LONGEST_NAME]) if isinstance(value, str) else ""


def _no_snapshot(path: Path, why: str) -> UserError:
    return UserError(
        "no memory snapshot",
        where=shown_path(path),
        why=why,
        do="write one with torch.cuda.memory._dump_snapshot; see docs/memory.md",
    )
