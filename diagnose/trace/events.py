"""One Kineto event as typed structs, and its decoding from text."""

import json
import math
from typing import Any

import msgspec

Number = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """The arguments the analysis uses; everything else in `args` is skipped unread."""

    external_id: Number = msgspec.field(default=None, name="External id")
    correlation: Number = None
    stream: Number = None
    device: Number = None
    bytes: Number = msgspec.field(default=None, name="bytes")
    blocks_per_sm: Number = msgspec.field(default=None, name="blocks per SM")
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input type")
    concrete: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Concrete Inputs")
    collective: Any = msgspec.field(default=None, name="Collective name")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    dtype: Any = None
    elements_in: Number = msgspec.field(default=None, name="In msg nelems")
    elements_out: Number = msgspec.field(default=None, name="Out msg nelems")
    group_size: Number = msgspec.field(default=None, name="Group size")
    seq: Number = msgspec.field(default=None, name="Seq")
    reserved: Number = msgspec.field(default=None, name="Total Reserved")
    device_id: Number = msgspec.field(default=None, name="Device Id")
    device_type: Number = msgspec.field(default=None, name="Device Type")
    external_id_before_2021: Number = msgspec.field(default=None, name="external id")
    dims_before_2021: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input dims")


class Event(msgspec.Struct, gc=False):
    """An event whose clock is relative: microseconds with three decimals fit a double exactly."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Number = None
    tid: Number = None
    ts: float = math.nan
    dur: float = math.nan
    args: Args | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """The same event with `ts` kept as digits, for clocks that a double cannot hold to the nanosecond."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Number = None
    tid: Number = None
    ts: msgspec.Raw = msgspec.Raw()
    dur: float = math.nan
    args: Args | None = None


AnyEvent = Event | ExactEvent

decode_events = msgspec.json.Decoder(list[Event]).decode
decode_exact_events = msgspec.json.Decoder(list[ExactEvent]).decode
decode_exact_event = msgspec.json.Decoder(ExactEvent).decode


def decode_loosely(text: str) -> ExactEvent | None:
    """An event whose fields have unexpected types, None when `text` is no JSON object.

    Older exporters write `ts` and `dur` as strings and `args` as anything.
    """
    try:
        found = json.loads(text, strict=False, parse_float=str)
    except (ValueError, RecursionError):
        return None
    return _from_dict(found) if isinstance(found, dict) else None


def _from_dict(found: dict[str, Any]) -> ExactEvent:
    args = found.get("args")
    dur = as_number(found.get("dur"))
    return ExactEvent(
        ph=_text(found.get("ph")),
        cat=_text(found.get("cat")),
        name=_text(found.get("name")),
        pid=_scalar(found.get("pid")),
        tid=_scalar(found.get("tid")),
        ts=msgspec.Raw(_text(found.get("ts")).encode()),
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
    return value if isinstance(value, str) else "" if value is None else str(value)


def _scalar(value: Any) -> Number:
    return value if value is None or isinstance(value, int | float | str) else json.dumps(value)


def as_number(value: Any) -> float | None:
    """`value` as a finite float, None when it is not one."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def as_int(value: Any, absent: int = -1) -> int:
    """`value` as an int that fits 63 bits; the digits at the end of a string such as "stream 7" count."""
    if type(value) is int:
        return value if -(1 << 62) < value < 1 << 62 else absent
    if isinstance(value, str):
        digits = value.rsplit(" ", 1)[-1]
        return as_int(int(digits), absent) if digits.isdecimal() and len(digits) < 19 else absent
    number = as_number(value)
    return absent if number is None or abs(number) >= 1 << 62 else int(number)


def exact_ns(digits: bytes) -> int | None:
    """Microseconds in decimal digits to integer nanoseconds, rounded half up; None when it is no plain number."""
    text = digits.decode("ascii", "replace").strip().strip('"')
    sign = -1 if text.startswith("-") else 1
    whole, _, fraction = text.removeprefix("-").partition(".")
    if whole.isdecimal() and (not fraction or fraction.isdecimal()) and len(whole) < 16:
        padded = f"{fraction:0<4.4}"
        return sign * (int(whole) * 1000 + (int(padded) + 5) // 10)
    number = as_number(text)
    return None if number is None or abs(number) > 9e15 else round(number * 1000)
