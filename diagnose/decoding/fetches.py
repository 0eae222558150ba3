"""Find the last use of each remembered value in a pickle: the first of the two passes over a file.

Most remembered values are never used again, and most of the rest soon: a stack is used again by the action that frees
what it allocated. So few values have to be held at a time, however long the file.
"""

import re
from collections.abc import Iterable
from typing import cast

import numpy as np

from diagnose.decoding import opcodes
from diagnose.decoding.look_ahead import LookAhead
from diagnose.decoding.opcodes import UnsoundPickle

_LONG = rb"j...."
_PASSED = rb"h.|[(01)tldaesu\]}N\x85-\x89\x94]|[Kq].|M..|[Jr]....|G.{8}|\x8a(?:\x06.{6}|\x07.{7}|\x08.{8}|\x05.{5})"
_RUN = re.compile(b"(?:" + _LONG + b"|" + _PASSED + b")*+", re.DOTALL)
_FETCHES = re.compile(b"(?:" + _PASSED + b")*+((?:" + _LONG + rb")++|\Z)", re.DOTALL)
_SHORT = 1 << 8  # numbers that short opcodes ask for: they are few, and count as asked for to the end
_OPCODE = np.dtype([("code", "u1"), ("number", "<u4")])
_LAST_PART = (1 << 16) - 1  # of what is asked for later still: it is held to the end


class LastFetches:
    """The part of the file in which each remembered value is used last, by the number under which it is remembered."""

    def __init__(self) -> None:
        self._parts = np.zeros(1 << 12, np.uint16)
        self._parts[:_SHORT] = _LAST_PART
        self._looked_up = self._parts.data

    def last_part(self, number: int) -> int:
        """The last part of the file, from 1, that asks for the number; 0 if none does."""
        return self._looked_up[number] if number < len(self._looked_up) else 0

    def ended(self, numbers: Iterable[int], part: int) -> list[int]:
        """The numbers that no part from `part` on uses."""
        if part > _LAST_PART:
            return []
        asked = np.fromiter(numbers, np.int64)
        return cast(list[int], asked[self._parts[asked] < part].tolist())

    def note(self, found: bytes, window: LookAhead) -> None:
        """Take down fetches that end before the window's next byte: opcodes of five bytes each.

        Raises:
            UnsoundPickle: one uses a number that is higher than any that fits into the file before it.
        """
        if not found:
            return
        numbers = np.frombuffer(found, _OPCODE)["number"]
        most = int(numbers.max())
        if most >= window.passed_bytes:  # to remember a value takes a byte or more
            raise UnsoundPickle("it refers to a value that it does not have")
        if most >= len(self._parts):
            self._grow(most + most // 4)
        self._parts[numbers] = min(window.part, _LAST_PART)

    def _grow(self, length: int) -> None:
        grown = np.zeros(length, np.uint16)
        grown[: len(self._parts)] = self._parts
        self._parts, self._looked_up = grown, grown.data


def fetches(window: LookAhead) -> LastFetches:
    """Go through a pickle to its end.

    Raises:
        UnsoundPickle: it has an opcode that plain values do not need, ends early, or exceeds a bound.
    """
    found = LastFetches()
    while True:
        data, begin = window.data, window.at
        run = _RUN.match(data, begin)
        window.at = begin if run is None else run.end()
        if window.at > begin:
            found.note(b"".join(_FETCHES.findall(data, begin, window.at)), window)
        code = window.take(1)
        if code == opcodes.STOP:
            return found
        if code == b"j":
            found.note(code + opcodes.exactly(window.take, 4), window)
        elif code == b"h":
            opcodes.exactly(window.take, 1)
        elif code not in opcodes.BARE:
            opcodes.pass_by(window.take, code)
