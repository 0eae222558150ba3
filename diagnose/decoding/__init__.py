"""Decode outside data into typed, bounded values: a table says what each field may hold, the rest is left out.

A value of the wrong type or outside its range is as good as missing, and its path is reported, so that the loss is
stated. Null is missing, and no loss. Keys that a table does not name are kept if they hold plain, bounded values.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from diagnose.decoding.schema import array, or_null, schema_of, within, written_as

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # raised by msgspec: the text is no such JSON
MOST_COUNT = 1 << 53  # what a double holds exactly; sums of a thousand of them fit 63 bits
LEAST_STATED, MOST_STATED = 1e-30, 1e30  # of a number that users state: what is computed of several stays finite
MOST_RANKS = 1 << 20  # of a job; who states more is damaged
LONGEST_TEXT = 4096
LONGEST_NAME = 512
MOST_ENTRIES = 65_536
_DEEPEST = 16
_ENDLESS, _AT_EVERY_TENTH = re.compile(rb"\d{100}"), re.compile(rb"\d{10}")

OnLeftOut = Callable[[str], None]
Kind = Callable[[Any, str, OnLeftOut], Any]
"""Takes a value, its path, and what is told the path of each value left out; None is no value."""


def unreported(path: str) -> None:
    """Ignore the path of a value that is left out."""


def anything(value: Any, path: str, left_out: OnLeftOut) -> Any:
    """The value as it is, for callers that check it themselves."""
    return value


def number(low: float = -MOST_COUNT, high: float = MOST_COUNT, *, written_whole: bool = False) -> Kind:
    """A finite number in [low, high]; flags are none. `written_whole` is read alike, and written without decimals."""

    @written_as(lambda: within("integer" if written_whole else "number", *_told_bounds(low, high)))
    def decoded(value: Any, path: str, left_out: OnLeftOut) -> Any:
        sound = type(value) in (int, float) and low <= value <= high  # NaN is in no range
        return value if sound else _left_out(value, path, left_out)

    return decoded


def whole(low: int = 0, high: int = MOST_COUNT) -> Kind:
    """A whole number in [low, high]."""

    @written_as(lambda: within("integer", *_told_bounds(low, high)))
    def decoded(value: Any, path: str, left_out: OnLeftOut) -> Any:
        return value if type(value) is int and low <= value <= high else _left_out(value, path, left_out)

    return decoded


@written_as(lambda: {"type": "boolean"})
def flag(value: Any, path: str, left_out: OnLeftOut) -> Any:
    """True or false."""
    return value if isinstance(value, bool) else _left_out(value, path, left_out)


@written_as(lambda: {"type": "string"})
def text(value: Any, path: str, left_out: OnLeftOut) -> Any:
    """A text of at most `LONGEST_TEXT` characters."""
    sound = isinstance(value, str) and len(value) <= LONGEST_TEXT
    return encodable(value) if sound else _left_out(value, path, left_out)


@written_as(lambda: {"type": "string"})
def name(value: Any, path: str, left_out: OnLeftOut) -> Any:
    """A text of at most `LONGEST_NAME` characters; the rest is cut off, since it helps no reader."""
    decoded = text(value, path, left_out)
    return decoded if decoded is None else decoded[:LONGEST_NAME]


@written_as(lambda: {"type": "string", "pattern": "^[0-9]{1,18}$"})
def digits(value: Any, path: str, left_out: OnLeftOut) -> Any:
    """A number of at most 18 digits, as text."""
    sound = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 18
    return value if sound else _left_out(value, path, left_out)


def one_of(*words: str) -> Kind:
    """A text, which is written as one of the words; another version of the writer may know more of them."""

    @written_as(lambda: {"enum": [*words]})
    def decoded(value: Any, path: str, left_out: OnLeftOut) -> Any:
        return text(value, path, left_out)

    return decoded


@written_as(lambda: {"type": ["string", "number", "boolean"]})
def scalar(value: Any, path: str, left_out: OnLeftOut) -> Any:
    """A flag, a bounded number or a text."""
    kind = flag if isinstance(value, bool) else text if isinstance(value, str) else _ANY_NUMBER
    return kind(value, path, left_out)


def listed(kind: Kind, most: int = MOST_ENTRIES) -> Kind:
    """A list of at most `most` entries; each entry of another kind is left out and reported."""

    @written_as(lambda: array(schema_of(kind), most=most if most < MOST_ENTRIES else None))
    def decoded(value: Any, path: str, left_out: OnLeftOut) -> Any:
        if not isinstance(value, list) or len(value) > most:
            return _left_out(value, path, left_out)
        entries = (kind(entry, path, left_out) for entry in value)
        return [entry for entry in entries if entry is not None]

    return decoded


def in_order(kind: Kind) -> Kind:
    """A list whose entries keep their places; entries of another kind become null."""

    @written_as(lambda: array(or_null(schema_of(kind))))
    def decoded(value: Any, path: str, left_out: OnLeftOut) -> Any:
        if not isinstance(value, list) or len(value) > MOST_ENTRIES:
            return _left_out(value, path, left_out)
        return [kind(entry, path, left_out) for entry in value]

    return decoded


def all_of(kind: Kind, least: int = 0, most: int = MOST_ENTRIES) -> Kind:
    """A list of `least` to `most` entries, all of the kind."""

    @written_as(lambda: array(schema_of(kind), least, most if most < MOST_ENTRIES else None))
    def decoded(value: Any, path: str, left_out: OnLeftOut) -> Any:
        if not isinstance(value, list) or not least <= len(value) <= most:
            return _left_out(value, path, left_out)
        entries = [kind(entry, path, unreported) for entry in value]
        return _left_out(value, path, left_out) if None in entries else entries

    return decoded


def all_whole(low: int = 0, high: int = MOST_COUNT) -> Kind:
    """The same as `all_of(whole(low, high))`, fast on long lists: each trace of a group lists all of its ranks."""

    def decoded(value: Any, path: str, left_out: OnLeftOut) -> Any:
        if not isinstance(value, list) or len(value) > MOST_ENTRIES:
            return _left_out(value, path, left_out)
        sound = not value or (set(map(type, value)) == {int} and low <= min(value) and max(value) <= high)
        return list(value) if sound else _left_out(value, path, left_out)

    return decoded


def row(*kinds: Kind) -> Kind:
    """A list of as many entries as there are kinds, each of its own kind and none missing."""

    @written_as(
        lambda: {
            "type": "array",
            "prefixItems": [schema_of(k) for k in kinds],
            "minItems": len(kinds),
            "maxItems": len(kinds),
        }
    )
    def decoded(value: Any, path: str, left_out: OnLeftOut) -> Any:
        if not isinstance(value, list) or len(value) != len(kinds):
            return _left_out(value, path, left_out)
        entries = [kind(entry, path, unreported) for kind, entry in zip(kinds, value, strict=True)]
        return _left_out(value, path, left_out) if None in entries else entries

    return decoded


def each(kind: Kind) -> Kind:
    """An object of any keys whose values are of the kind; null values are left out."""

    @written_as(lambda: {"type": "object", "additionalProperties": schema_of(kind)})
    def decoded(value: Any, path: str, left_out: OnLeftOut) -> Any:
        if not isinstance(value, Mapping):
            return _left_out(value, path, left_out)
        entries = _entries(value, path, left_out, lambda key: kind)
        return {key: entry for key, entry in entries if entry is not None}

    return decoded


def table(fields: Mapping[str, Kind], *, optional: Collection[str] = (), open_to_others: bool = False) -> Kind:
    """An object with these fields, null if nothing is there; others hold plain values, at most.

    All fields but the `optional` ones are written, and others only if it is `open_to_others`.
    """

    def written() -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name: or_null(schema_of(kind)) for name, kind in fields.items()},
            "required": [name for name in fields if name not in optional],
            "additionalProperties": open_to_others,
        }

    @written_as(written)
    def decoded(value: Any, path: str, left_out: OnLeftOut) -> Any:
        if not isinstance(value, Mapping):
            return _left_out(value, path, left_out)
        return dict(_entries(value, path, left_out, lambda key: fields.get(key, plain)))

    return decoded


def plain(value: Any, path: str, left_out: OnLeftOut) -> Any:
    """Any JSON value, to a limited depth, with bounded numbers and texts."""
    if path.count(".") > _DEEPEST:
        return _left_out(value, path, left_out)
    if isinstance(value, Mapping):
        return _PLAIN_OBJECT(value, path + ".", left_out)
    if isinstance(value, list):
        return _PLAIN_LIST(value, path + ".", left_out)
    return scalar(value, path, left_out)


def has_endless_number(content: bytes) -> bool:
    """Whether JSON has a number of more digits than any of ours: a double takes 17, an integer here 19.

    Of a hundred digits ten are at every tenth byte, which are checked first, so that large documents take less time.
    """
    return _AT_EVERY_TENTH.search(content[::10]) is not None and _ENDLESS.search(content) is not None


def encodable(value: str) -> str:
    """`value` with a question mark for each half of a character, which JSON can escape but UTF-8 cannot encode."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def finite(value: object, low: float = -math.inf, high: float = math.inf) -> float | None:
    """`value` as a finite float within [low, high]; None when it is none."""
    if type(value) not in (int, float) or not max(low, -1e300) <= value <= min(high, 1e300):  # type: ignore[operator]
        return None
    return float(value)  # type: ignore[arg-type]


def entries(value: object) -> Sequence[Mapping[str, Any]]:
    """The objects in a list; none if it is no list."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


_ANY_NUMBER = number()
_PLAIN_OBJECT, _PLAIN_LIST = each(plain), in_order(plain)


def _entries(
    value: Mapping[str, Any], path: str, left_out: OnLeftOut, kind: Callable[[str], Kind]
) -> Iterator[tuple[str, Any]]:
    for count, (key, entry) in enumerate(value.items()):
        if count >= MOST_ENTRIES:
            left_out(path)
            return
        if entry is None:
            yield encodable(key), None
        elif (decoded := kind(key)(entry, _below(path, key), left_out)) is not None:
            yield encodable(key), decoded


def _told_bounds(low: float, high: float) -> tuple[float | None, float | None]:
    """The bounds that say something of a number."""
    return low if low > -MOST_COUNT else None, high if high < MOST_COUNT else None


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _left_out(value: Any, path: str, left_out: OnLeftOut) -> None:
    if value is not None:
        left_out(path)
