"""Dictionaries of scalars, remembered values and at most one list of them, read whole by one pattern.

Nearly all of a snapshot is such dictionaries, millions of them, which take several times as long opcode by opcode. Data
that does not match is left to the machine of `unpickling`: the pattern decides how fast a file is read, never the
result.
"""

import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from diagnose.decoding import opcodes

_ITEM = (
    rb"j....|h.|K.|\x8a(?:\x06.{6}|\x07.{7}|\x08.{8}|\x05.{5}|\x01.|\x02..|\x03.{3}|\x04.{4})"
    rb"|J....|M..|[N\x88\x89]|G.{8}"
)
_REMEMBERED = rb"(\x94|q.|r....)?"
_ITEMS = b"((?:" + _ITEM + b")*+)"
_FLAT = re.compile(
    rb"\}" + _REMEMBERED + rb"\(" + _ITEMS + rb"(\]" + _REMEMBERED + rb"\(" + _ITEMS + b"e" + _ITEMS + b")?u", re.DOTALL
)
_EACH = re.compile(_ITEM, re.DOTALL)
_MOST_LISTED_BYTES = 1 << 25  # in the file; a tuple takes twice as much

Remembered = bytes | None
"""The opcode under which a value is remembered; None where it is not."""


class Flat(NamedTuple):
    """A dictionary that was read: its entries, with a tuple in place of the list, and the position where it ends."""

    entries: dict[Any, Any]
    remembered: Remembered
    has_list: bool
    list_of: tuple[Any, ...]
    list_remembered: Remembered
    end: int


class Values(dict[bytes, Any]):
    """Values of opcodes of plain dictionaries, cached by their bytes.

    Args:
        known: returns the value that is remembered under a number, or raises KeyError.
    """

    def __init__(self, known: Callable[[int], Any]) -> None:
        super().__init__()
        self._known = known
        self._lists: dict[bytes, tuple[Any, ...]] = {}
        self._list_bytes = 0

    def __missing__(self, code: bytes) -> Any:
        kind = code[0]
        if kind == _LONG:
            return int.from_bytes(code[2:], "little", signed=True)
        if kind in _FETCHES:
            value = self._known(int.from_bytes(code[1:], "little"))
        elif kind in _FORMS:
            value = struct.unpack(_FORMS[kind], code[1:])[0]
        else:
            value = _CONSTANTS[kind]
        self[code] = value
        return value

    def forget(self, number: int | None = None) -> None:
        """Forget the value cached for a number, since it is another value; without a number, forget all."""
        if number is None:
            self.clear()
            self._lists.clear()
            self._list_bytes = 0
        else:
            self.pop(b"j" + number.to_bytes(4, "little"), None)
            self.pop(b"h" + number.to_bytes(4, "little")[:1], None)

    def tidy(self) -> None:
        """Forget scalars, and lists unless they are few: the stacks of a long history recur."""
        self.clear()
        if self._list_bytes > _MOST_LISTED_BYTES:
            self.forget()

    def flat(self, data: bytes, at: int) -> Flat | None:
        """The dictionary that begins at a place in the data; None if it is no such dictionary, or not sound."""
        found = _FLAT.match(data, at)
        try:
            return None if found is None else self._read(found)
        except (KeyError, TypeError, ValueError):  # a value that is not there, a key that is no plain value, no pairs
            return None

    def _read(self, found: re.Match[bytes]) -> Flat:
        get, each = self.__getitem__, _EACH.findall
        remembered, first, rest, list_remembered, listed, last = found.groups()
        values = list(map(get, each(first)))
        list_of: tuple[Any, ...] = ()
        if rest is not None:
            known = self._lists.get(listed)
            list_of = self._list(listed) if known is None else known
            values.append(list_of)
            values += map(get, each(last))
        if not opcodes.KEYS.issuperset(map(type, values[::2])):
            raise TypeError("a key that is no plain value")
        several = iter(values)
        return Flat(
            dict(zip(several, several, strict=True)),
            remembered,
            rest is not None,
            list_of,
            list_remembered,
            found.end(),
        )

    def _list(self, listed: bytes) -> tuple[Any, ...]:
        found = tuple(map(self.__getitem__, _EACH.findall(listed)))
        self._lists[listed] = found
        self._list_bytes += len(listed)
        return found


_LONG = 0x8A
_FETCHES = frozenset(b"hj")
_FORMS = {ord("K"): "<B", ord("M"): "<H", ord("J"): "<i", ord("G"): ">d"}
_CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False}
