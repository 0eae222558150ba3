"""The flight recorder's dump of a rank: its calls of collectives, and the groups that they are made in.

The format is that of torch's `FlightRecorder` and, before torch 2.8, `NCCLTraceBuffer`: version 1.x to 2.x. A version
adds fields; those that one lacks are unknown. Gloo records a call as scheduled for ever, and marks it retired when its
work has ended; NCCL's are retired too when they have timed out, so of those the state alone counts.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from diagnose import decoding
from diagnose.decoding import MOST_COUNT, MOST_RANKS
from diagnose.trace.python_frames import is_of_library
from diagnose.trace.stacks import Frame

State = Literal["scheduled", "started", "completed"]
MOST_CALLS = 1_000_000
DEEPEST_STACK = 200
_MESSAGE = re.compile(r"(?P<op>send|recv) (?P<me>\d{1,7})(->|<-)(?P<other>\d{1,7})")
_MEMBERS = re.compile(r"\[[\d,\s]*\]")
_STATES: Mapping[str, State] = {"scheduled": "scheduled", "started": "started", "completed": "completed"}


@dataclass(frozen=True, slots=True)
class DumpedGroup:
    """A process group as a rank knows it; `ranks` are the members among all ranks of the job, None if unknown."""

    name: str
    label: str
    ranks: tuple[int, ...] | None

    @property
    def shown(self) -> str:
        """The name and the purpose of the group."""
        return f"{self.name} ({self.label})" if self.label and self.label != "undefined" else self.name


@dataclass(frozen=True, slots=True)
class DumpedCall:
    """A call of a collective, or a message between two ranks.

    Attributes:
        group: in which it is made.
        number: the index of the collective in the group, the same on all members.
        op: as torch names it, without the library: "all_reduce".
        backend: "nccl", "gloo", ...
        message: of a message, the sender and the receiver by their places in the group.
        input_sizes, output_sizes: elements of each tensor; None if the dump has no such field.
        input_types, output_types: likewise.
        state: how far it got.
        timed_out: whether the watchdog gave it up.
        created_ns: when it was called, since 1970.
        timeout_ms: after which the watchdog gives it up.
        line: the innermost line of the user's own code that called it.
        stack: all frames, the innermost first.
    """

    group: DumpedGroup
    number: int
    op: str
    backend: str
    message: tuple[int, int] | None
    input_sizes: tuple[int, ...] | None
    output_sizes: tuple[int, ...] | None
    input_types: tuple[str, ...] | None
    output_types: tuple[str, ...] | None
    state: State
    timed_out: bool
    created_ns: int | None
    timeout_ms: int | None
    line: Frame | None
    stack: tuple[Frame, ...]

    @property
    def is_open(self) -> bool:
        """Whether the call has not ended."""
        return self.state != "completed"


@dataclass(frozen=True, slots=True)
class Dump:
    """The dump that one rank left.

    Attributes:
        rank: of the job.
        file: its name.
        version: of the format, "" if none is stated.
        calls: the oldest first.
        lost: calls that were made before these, and are no longer kept.
        groups: those that the rank is a member of, by name; a group that made no call may be missing.
        left_out: number of values that are invalid in the format.
    """

    rank: int
    file: str
    version: str
    calls: tuple[DumpedCall, ...]
    lost: int
    groups: Mapping[str, DumpedGroup]
    left_out: int


def dump_of(value: Any, rank: int, file: str) -> Dump | None:
    """The dump in a plain value, an object with `entries` or the list of them; None if it is neither."""
    entries = value.get("entries") if isinstance(value, Mapping) else value
    stated = value if isinstance(value, Mapping) else {}
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, Mapping) for entry in entries[:1]):
        return None
    if not entries and "pg_config" not in stated and "version" not in stated:
        return None
    loss: list[str] = []
    groups = _groups(stated.get("pg_config"))
    listed = [entry for entry in entries[-MOST_CALLS:] if isinstance(entry, Mapping)]
    calls = [call for entry in listed if (call := _call(entry, groups, loss.append)) is not None]
    first = _count(listed[0].get("record_id")) if listed else None
    version = stated.get("version")
    named = version[:20] if isinstance(version, str) else ""
    return Dump(rank, file, named, tuple(calls), first or 0, groups, len(loss) + len(entries) - len(calls))


def _groups(config: Any) -> dict[str, DumpedGroup]:
    """The members of every group; gloo states none, under an empty name."""
    if not isinstance(config, Mapping):
        return {}
    found = {}
    for name, entry in list(config.items())[: decoding.MOST_ENTRIES]:
        if isinstance(name, str) and name and isinstance(entry, Mapping):
            label = entry.get("desc")
            found[name] = DumpedGroup(_short(name), _short(label), _members(entry.get("ranks")))
    return found


def _members(stated: Any) -> tuple[int, ...] | None:
    """The ranks in a list, or in the text of one; None if they are not known."""
    if isinstance(stated, str) and len(stated) < 8 * MOST_RANKS and _MEMBERS.fullmatch(stated):
        stated = [int(number) for number in re.findall(r"\d{1,7}", stated)]
    if not isinstance(stated, list | tuple) or not stated:
        return None
    ranks = [rank for rank in stated if type(rank) is int and 0 <= rank < MOST_RANKS]
    return tuple(sorted(set(ranks))) if len(ranks) == len(stated) else None


def _call(
    entry: Mapping[Any, Any], groups: Mapping[str, DumpedGroup], told: Callable[[str], None]
) -> DumpedCall | None:
    backend, _, titled = _short(entry.get("profiling_name")).rpartition(":")
    message = _MESSAGE.match(titled)
    number = _count(entry.get("collective_seq_id", entry.get("seq_id")))
    if not titled or number is None:
        return None
    state = _STATES.get(_short(entry.get("state")), "scheduled")
    retired = entry.get("retired") is True
    ended = state == "completed" or bool(_count(entry.get("time_discovered_completed_ns")))
    ended |= retired and backend == "gloo"
    stack = _stack(entry.get("frames"))
    return DumpedCall(
        group=_group(entry, groups),
        number=number,
        op=message["op"] if message else titled.split(" ")[0],
        backend=backend,
        message=_ends(message) if message else None,
        input_sizes=_sizes(entry.get("input_sizes"), told),
        output_sizes=_sizes(entry.get("output_sizes"), told),
        input_types=_types(entry.get("input_dtypes")),
        output_types=_types(entry.get("output_dtypes")),
        state="completed" if ended else state,
        timed_out=retired and not ended,
        created_ns=_count(entry.get("time_created_ns"), 1 << 62),
        timeout_ms=_count(entry.get("timeout_ms")),
        line=next((frame for frame in stack if not _is_of_library(frame.file)), None),
        stack=stack,
    )


def _group(entry: Mapping[Any, Any], groups: Mapping[str, DumpedGroup]) -> DumpedGroup:
    """The group by its name and label; old versions only have a number."""
    named = entry.get("process_group")
    if isinstance(named, list | tuple) and named and isinstance(named[0], str):
        name, label = _short(named[0]), _short(named[1]) if len(named) > 1 else ""
    else:
        name, label = _short(entry.get("pg_name")) or str(_count(entry.get("pg_id")) or 0), ""
    return groups.get(name) or DumpedGroup(name, label, None)


def _ends(message: "re.Match[str]") -> tuple[int, int]:
    me, other = int(message["me"]), int(message["other"])
    return (me, other) if message["op"] == "send" else (other, me)


def _sizes(stated: Any, told: Callable[[str], None]) -> tuple[int, ...] | None:
    """Number of elements of each tensor; None if the shapes are invalid."""
    if not isinstance(stated, list | tuple) or len(stated) > decoding.MOST_ENTRIES:
        return None
    found = []
    for shape in stated:
        if not isinstance(shape, list | tuple) or len(shape) > 64:
            told("sizes")
            return None
        count = 1
        for size in shape:
            count *= size if type(size) is int and 0 <= size <= MOST_COUNT else 0
            count = min(count, MOST_COUNT)
        found.append(count)
    return tuple(found)


def _types(stated: Any) -> tuple[str, ...] | None:
    if not isinstance(stated, list | tuple) or len(stated) > decoding.MOST_ENTRIES:
        return None
    return tuple(_short(entry) for entry in stated)


def _stack(frames: Any) -> tuple[Frame, ...]:
    if not isinstance(frames, list | tuple):
        return ()
    found = []
    for frame in frames[:DEEPEST_STACK]:
        if isinstance(frame, Mapping):
            line = _count(frame.get("line"), 1 << 31)
            found.append(_frame(_short(frame.get("filename")), line or 0, _short(frame.get("name"))))
    return tuple(found)


def _short(value: Any) -> str:
    """A text, cut to a length that helps a reader; "" for other values."""
    return decoding.encodable(value[: decoding.LONGEST_NAME]) if isinstance(value, str) else ""


def _count(value: Any, most: int = MOST_COUNT) -> int | None:
    return value if type(value) is int and 0 <= value <= most else None


@lru_cache(1 << 16)
def _frame(file: str, line: int, function: str) -> Frame:
    return Frame(file, line, function)


@lru_cache(1 << 16)
def _is_of_library(file: str) -> bool:
    return is_of_library(file)
