"""One Kineto event as typed structs, and its decoding from text."""

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Union

import msgspec
import numpy as np

from diagnose.arrays import ABSENT, Floats
from diagnose.decoding import encodable
from diagnose.formulas.kineto import DOUBLE_IS_EXACT_BELOW_US
from diagnose.trace.numbers import as_number

Number = int | float | str | None

ALLOCATION = "[memory]"  # the name of an instant at which memory is taken or given back
NO_JSON = msgspec.Raw()
NO_NUMBER = math.nan
UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)


class Args(msgspec.Struct, gc=False):
    """The arguments the analysis uses; everything else in `args` is skipped unread."""

    external_id: Number = msgspec.field(default=ABSENT, name="External id")
    correlation: Number = ABSENT
    stream: Number = ABSENT
    device: Number = ABSENT
    bytes: Number = msgspec.field(default=ABSENT, name="bytes")
    blocks_per_sm: Number = msgspec.field(default=NO_NUMBER, name="blocks per SM")
    warps_per_sm: Number = msgspec.field(default=NO_NUMBER, name="warps per SM")
    occupancy_percent: Number = msgspec.field(default=ABSENT, name="est. achieved occupancy %")
    dims: msgspec.Raw = msgspec.field(default=NO_JSON, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=NO_JSON, name="Input type")
    concrete: msgspec.Raw = msgspec.field(default=NO_JSON, name="Concrete Inputs")
    collective: Any = msgspec.field(default=None, name="Collective name")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    dtype: Any = None
    elements_in: Number = msgspec.field(default=ABSENT, name="In msg nelems")
    elements_out: Number = msgspec.field(default=ABSENT, name="Out msg nelems")
    group_size: Number = msgspec.field(default=ABSENT, name="Group size")
    seq: Number = msgspec.field(default=ABSENT, name="Seq")
    group_ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    receiver: Number = msgspec.field(default=ABSENT, name="Dst Rank")
    sender: Number = msgspec.field(default=ABSENT, name="Src Rank")
    allocated: Number = msgspec.field(default=ABSENT, name="Total Allocated")
    reserved: Number = msgspec.field(default=ABSENT, name="Total Reserved")
    device_id: Number = msgspec.field(default=ABSENT, name="Device Id")
    device_type: Number = msgspec.field(default=ABSENT, name="Device Type")
    external_id_before_2021: Number = msgspec.field(default=ABSENT, name="external id")
    dims_before_2021: msgspec.Raw = msgspec.field(default=NO_JSON, name="Input dims")


class Event(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A complete event whose clock is relative: microseconds with three decimals fit a double exactly."""

    cat: str = ""
    name: str = ""
    pid: Number = None
    tid: Number = None
    ts: float = math.nan
    dur: Number = math.nan
    args: Args | None = None


class Instant(msgspec.Struct, gc=False, tag_field="ph", tag="i"):
    """An event at one time, such as an allocation."""

    name: str = ""
    ts: float = math.nan
    args: Args | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """An event of any phase with `ts` kept as digits, for clocks that a double cannot hold to the nanosecond."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Number = None
    tid: Number = None
    ts: msgspec.Raw = NO_JSON
    dur: Number = math.nan
    args: Args | None = None


_SKIPPED_PHASES = "BECbneOANDMPSTFpstfRcVv()"
_SKIPPED = [msgspec.defstruct(f"Phase{p}", [], gc=False, tag_field="ph", tag=p) for p in _SKIPPED_PHASES]

decode_events = msgspec.json.Decoder(list[Union[Event, Instant, *_SKIPPED]]).decode  # type: ignore[valid-type]
decode_exact_events = msgspec.json.Decoder(list[ExactEvent]).decode
decode_args = msgspec.json.Decoder(Args).decode
_decode_exact_event = msgspec.json.Decoder(ExactEvent).decode


class Chunk(NamedTuple):
    """Decoded events: the complete ones, how many others, those without a phase, and the allocations of the others.

    `us` holds the times of the complete ones, then of the allocations, as doubles, None when they are ExactEvents and
    hold their own digits.
    """

    complete: Sequence[Event | ExactEvent]
    us: Floats | None
    others: int
    without_phase: int
    allocations: Sequence[Instant | ExactEvent]


def decode_chunk(array: bytes, *, exact: bool) -> tuple[Chunk, bool]:
    """The events of a JSON array of them, and whether their clock needs its digits.

    Args:
        array: JSON text.
        exact: whether the clock is known to need them.

    Raises:
        msgspec.DecodeError, ValueError, RecursionError: the text is not sound JSON of the expected types.
    """
    if not exact:
        try:
            events = decode_events(array)
        except msgspec.ValidationError:  # times in strings, or phases unheard of
            return exact_chunk(decode_exact_events(array)), False
        complete = [e for e in events if type(e) is Event]
        others = len(events) - len(complete)
        allocations = [e for e in events if type(e) is Instant and e.name == ALLOCATION] if others else []
        us = np.array([e.ts for e in complete] + [e.ts for e in allocations], np.float64)
        if not (np.abs(us) >= DOUBLE_IS_EXACT_BELOW_US).any():
            return Chunk(complete, us, others, 0, allocations), False
    return exact_chunk(decode_exact_events(array)), True


def exact_chunk(events: Sequence[ExactEvent]) -> Chunk:
    """The events, whatever their phase."""
    complete = [e for e in events if e.ph == "X"]
    others = [e for e in events if e.ph != "X"] if len(complete) < len(events) else []
    without_phase = sum(not e.ph for e in others)
    allocations = [e for e in others if e.ph == "i" and e.name == ALLOCATION]
    return Chunk(complete, None, len(others) - without_phase, without_phase, allocations)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_STRICT = json.JSONDecoder(parse_float=str, parse_constant=_refuse)
_BEGINS_JUNK = b'["-0123456789tfnNI'
_LENIENT = json.JSONDecoder(parse_float=str, strict=False)


def decode_event(text: bytes) -> ExactEvent | None:
    """The event whose sound JSON `text` is, with fields of whatever types; None when it is none.

    Older exporters write numbers as strings and `args` as anything.
    """
    try:
        return _decode_exact_event(text)
    except UNREADABLE:
        pass
    try:
        event = _STRICT.decode(text.decode())
    except UNREADABLE:
        return None
    return _from_dict(event) if isinstance(event, dict) else None


def decode_loosely(text: str) -> tuple[ExactEvent | None, str]:
    """The event that `text` begins with, control characters and NaN allowed, and the text after it."""
    try:
        event, end = _LENIENT.raw_decode(text)
    except UNREADABLE:
        return None, text
    return (_from_dict(event), text[end:]) if isinstance(event, dict) else (None, text)


def length_of_event(text: bytes) -> int | None:
    """Bytes of the JSON object that `text` begins with, 0 when it begins with none, None when it ends inside one."""
    loose = text.decode("utf-8", "surrogateescape")
    try:
        event, end = _LENIENT.raw_decode(loose)
    except json.JSONDecodeError as error:
        return None if error.pos >= len(loose) or error.msg.startswith("Unterminated string") else 0
    except UNREADABLE:
        return 0
    return len(loose[:end].encode("utf-8", "surrogateescape")) if isinstance(event, dict) else 0


def length_of_junk(text: bytes) -> int:
    """Bytes of the JSON value that `text` begins with, 0 when that is an object, or none that ends inside it."""
    if text[:1] not in _BEGINS_JUNK or not text:
        return 0
    loose = text.decode("utf-8", "surrogateescape")
    try:
        _, end = _LENIENT.raw_decode(loose)
    except UNREADABLE:
        return 0
    return len(loose[:end].encode("utf-8", "surrogateescape")) if loose[end:].lstrip()[:1] in (",", "]") else 0


def _from_dict(event: dict[str, Any]) -> ExactEvent:
    args = event.get("args")
    dur = as_number(event.get("dur"))
    return ExactEvent(
        ph=_text(event.get("ph")),
        cat=_text(event.get("cat")),
        name=_text(event.get("name")),
        pid=_scalar(event.get("pid")),
        tid=_scalar(event.get("tid")),
        ts=msgspec.Raw(_text(event.get("ts")).encode("utf-8", "replace")),
        dur=math.nan if dur is None else dur,
        args=_args_from_dict(args) if isinstance(args, dict) else None,
    )


def _args_from_dict(args: dict[str, Any]) -> Args:
    values: dict[str, Any] = {}
    for name, key in zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True):
        if key in args:
            raw = name in ("dims", "types", "concrete", "dims_before_2021")
            values[name] = msgspec.Raw(json.dumps(args[key]).encode()) if raw else _scalar(args[key])
    return Args(**values)


def _text(value: Any) -> str:
    return encodable(value) if isinstance(value, str) else "" if value is None else str(value)


def _scalar(value: Any) -> Number:
    if isinstance(value, str):
        return encodable(value)
    return value if value is None or isinstance(value, int | float) else json.dumps(value)
