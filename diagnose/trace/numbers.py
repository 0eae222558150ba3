"""Numbers as exporters write them, one by one and as columns: ints, floats, strings, anything."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from diagnose.arrays import ABSENT, Floats, Ints
from diagnose.formulas.kineto import DOUBLE_IS_EXACT_BELOW_US, NO_TIME, nanoseconds

_LIMIT = 1 << 62
_LONGEST_TEXT = 4000  # digits that Python makes an int of
_LONGEST_WHOLE = 16  # digits of the microseconds since the epoch
_THREE_DECIMALS = re.compile(rb'(?:"?\d{1,16}\.\d{3}"?,)+')
_NO_DECIMALS = re.compile(rb'(?:"?\d{1,16}"?,)+')


def as_number(value: Any) -> float | None:
    """`value` as a finite float, None when it is not one."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_int(value: Any, absent: int = ABSENT) -> int:
    """`value` as an int that fits 63 bits; the digits at the end of a string such as "stream 7" count."""
    if type(value) is int:
        return value if -_LIMIT < value < _LIMIT else absent
    if isinstance(value, str):
        digits = value.rsplit(" ", 1)[-1]
        if digits.isdecimal():
            return as_int(int(digits), absent) if len(digits) < _LONGEST_TEXT else absent
    number = as_number(value)
    return absent if number is None or abs(number) >= _LIMIT else int(number)


def integers(values: Sequence[Any]) -> Ints:
    """`as_int` of each value."""
    try:
        values_read = np.fromiter(values, np.int64, len(values))
        sound = np.abs(values_read) < _LIMIT
        return values_read if sound.all() else np.where(sound, values_read, ABSENT)
    except (TypeError, ValueError, OverflowError):
        pass
    known = {value: as_int(value) for value in {*values}}
    return np.fromiter(map(known.__getitem__, values), np.int64, len(values))


def within(values: Ints, most: int) -> Ints:
    """The values from 0 up to `most`, ABSENT for all others."""
    return np.where((values >= 0) & (values <= most), values, ABSENT)


def floats(values: Sequence[Any]) -> Floats:
    """`as_number` of each value, NaN if there is none."""
    try:
        values_read = np.fromiter(values, np.float64, len(values))
        finite = np.isfinite(values_read)
        return values_read if finite.all() else np.where(finite, values_read, np.nan)
    except (TypeError, ValueError, OverflowError):
        pass
    numbers = map(as_number, values)
    return np.fromiter((math.nan if n is None else n for n in numbers), np.float64, len(values))


def exact_nanoseconds(digits: Sequence[Any]) -> Ints:
    """Convert microseconds in decimal digits, quoted or not, to integer nanoseconds, NO_TIME if there is no number."""
    text = b",".join([*digits, b""])
    three = _THREE_DECIMALS.fullmatch(text)
    if not three and not _NO_DECIMALS.fullmatch(text):
        return np.fromiter((exact_ns(bytes(d)) for d in digits), np.int64, len(digits))
    values_read = np.fromstring(text.translate(None, b'."').decode(), np.int64, sep=",")
    scale = 1 if three else 1000
    return np.where(values_read < _LIMIT // scale, values_read * scale, NO_TIME)


def exact_ns(digits: bytes) -> int:
    """Microseconds in decimal digits to integer nanoseconds, rounded as `nanoseconds` does; NO_TIME for no number."""
    text = digits.decode("ascii", "replace").strip().strip('"')
    number = as_number(text)
    if number is None:
        return NO_TIME
    if abs(number) < DOUBLE_IS_EXACT_BELOW_US:
        return int(nanoseconds(np.array([number]))[0])
    if abs(number) * 1000 >= _LIMIT:
        return NO_TIME
    whole, _, fraction = text.removeprefix("-").partition(".")
    if whole.isdecimal() and (not fraction or fraction.isdecimal()) and len(whole) <= _LONGEST_WHOLE:
        ns = int(whole) * 1000 + (int(f"{fraction:0<4.4}") + 5) // 10
    else:
        ns = round(abs(number) * 1000)
    return (-ns if number < 0 else ns) if ns < _LIMIT else NO_TIME
