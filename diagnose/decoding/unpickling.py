"""Pickles of plain containers, read without pickle: nothing is imported, called or built but lists, dicts and scalars.

A dump is data, and whoever can write it must not be able to run anything on the machine that reads it. So this machine
knows the opcodes that plain values need and no other; one that asks for an object of Python is refused, with what it
asks for. It reads a file as a stream, its texts and numbers are bounded, and so is what it holds at a time.

A file is gone through twice: the first pass finds the last use of each value, and the second pass remembers it only
until then. With `reduced`, each dictionary is reduced as soon as it is complete, so that reading a file of any size
takes only the memory of its result.

Find the last use of each remembered value in a pickle: the first of the two passes over a file.

Most remembered values are never used again, and most of the rest soon: a stack is used again by the action that frees
what it allocated. So few values have to be held at a time, however long the file.
"""

import re
import struct
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, cast

import numpy as np

from diagnose.decoding import opcodes
from diagnose.decoding.flat import Flat, Remembered, Values
from diagnose.decoding.look_ahead import LookAhead
from diagnose.decoding.opcodes import UnsoundPickle

MOST_HELD = 16_000_000  # values; the dump of a rank has a million, and a gigabyte of memory
DEEPEST = 64
Reduced = Callable[[dict[Any, Any]], Any]


"""What stands in the place of a dictionary from when its entries are complete; the dictionary itself to keep it.

A list in it may be a tuple instead. What keeps the dictionary is asked again.
"""


def read(file: BinaryIO, reduced: Reduced | None = None) -> Any:
    """The value in `file`, which can be rewound.

    Args:
        file: opened for reading bytes.
        reduced: called for each dictionary with entries.

    Raises:
        UnsoundPickle: it asks for more than plain values, is damaged, or holds more than is read.
    """
    asked = fetches(LookAhead(file))
    file.seek(0)
    return _Machine(LookAhead(file), asked, reduced).run()


def is_pickle(first: bytes) -> bool:
    """Whether a file that begins with these bytes is a pickle of protocol 2 to 5."""
    return len(first) > 1 and first[:1] == b"\x80" and 2 <= first[1] <= 5


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


class _Machine:
    """One pass over the file that builds the value."""

    def __init__(self, window: LookAhead, asked: LastFetches, reduced: Reduced | None) -> None:
        self._window = window
        self._take = window.take
        self._asked = asked
        self._reduced = reduced
        self._memo: dict[int, Any] = {}
        self._values = Values(self._memo.__getitem__)
        self._tidied_part = 1
        self._kept: list[Any] = []  # the remembered lists, in their order
        self._number_of: dict[int, int] = {}  # of remembered dictionaries, by identity
        self._remembered = 0
        self._stack: list[Any] = []
        self._marks: list[tuple[int, int, int]] = []  # the lengths of the stack and of `_kept`, and what was held
        self._held = 0

    def run(self) -> Any:
        take, stack, memo, from_bytes = self._take, self._stack, self._memo, int.from_bytes
        fetches, bare = opcodes.FETCHED, _PLAIN
        while True:
            code = take(1)
            if code in fetches:  # half of a dump
                number = from_bytes(take(fetches[code]), "little")
                stack.append(memo[number] if number in memo else self._known(number))
            elif code == b"}" and self._reduced is not None and self._flat(self._reduced):
                pass
            elif code in bare:
                bare[code](self)
            elif code in opcodes.REMEMBERED:
                self._remember(opcodes.whole(take, opcodes.REMEMBERED[code]))
            elif code == opcodes.STOP:
                return self._top()
            else:
                self._scalar(code)

    def _flat(self, reduced: Reduced) -> bool:
        """Read the dictionary that has begun at once; False if it is for the machine."""
        window = self._window
        found = self._values.flat(window.data, window.at - 1)
        if found is None or self._takes_a_number(found):
            self._tidy()
            return False
        small = reduced(found.entries)
        if small is found.entries:
            return False
        window.at = found.end
        self.push(small)
        self._remember_flat(found.remembered, small)
        self._remember_flat(found.list_remembered, found.list_of)
        return True

    def _takes_a_number(self, found: Flat) -> bool:
        """Whether a value takes the number of another, which recorders never do."""
        own, of_list = found.remembered, found.list_remembered
        if own is not None and len(own) > 1 and _number(own) in self._memo:
            return True
        return of_list is not None and len(of_list) > 1 and _number(of_list) in self._memo

    def _remember_flat(self, code: Remembered, value: Any) -> None:
        if code is None:
            return
        number = self._remembered if len(code) == 1 else _number(code)
        self._remembered += 1
        if self._asked.last_part(number):
            self._memo[number] = value

    def _tidy(self) -> None:
        """Forget, once in each part of the file, the values that are not used any more."""
        part, memo = self._window.part, self._memo
        if part == self._tidied_part:
            return
        self._tidied_part = part
        self._values.tidy()
        for number in self._asked.ended(memo, part):
            self._number_of.pop(id(memo.pop(number)), None)
        lists = {id(value): len(value) for value in memo.values() if type(value) is tuple}
        if self._held + len(memo) + sum(lists.values()) > MOST_HELD:
            raise UnsoundPickle(f"it holds more than {MOST_HELD:,} values at a time")

    def _scalar(self, code: bytes) -> None:
        take = self._take
        if code in opcodes.TEXTS:
            self.push(opcodes.text(take, code).decode("utf-8", "replace"))
        elif code in opcodes.FIXED:
            size, form = opcodes.FIXED[code]
            self.push(struct.unpack(form, opcodes.exactly(take, size))[0])
        elif code in opcodes.NUMBERS:
            self.push(opcodes.number(take, code))
        elif code in opcodes.BYTES:
            self.push(opcodes.text(take, code))
        else:
            opcodes.pass_by(take, code)

    def push(self, value: Any) -> None:
        """Push a value that takes memory of its own onto the stack."""
        self._stack.append(value)
        self._held += 1
        if self._held > MOST_HELD:
            raise UnsoundPickle(f"it holds more than {MOST_HELD:,} values at a time")

    def _known(self, number: int) -> Any:
        try:
            return self._memo[number]
        except KeyError:
            raise UnsoundPickle("it refers to a value that it does not have") from None

    def memoize(self) -> None:
        self._remember(self._remembered)

    def _remember(self, number: int) -> None:
        self._remembered += 1
        if not self._asked.last_part(number):
            return
        if number in self._memo:
            self._values.forget()
        value = self._memo[number] = self._top()
        if type(value) is dict:
            self._number_of[id(value)] = number
        elif type(value) in (list, tuple):
            self._kept.append(value)

    def _top(self) -> Any:
        self._need(1)
        return self._stack[-1]

    def _need(self, count: int) -> None:
        if len(self._stack) - (self._marks[-1][0] if self._marks else 0) < count:
            raise _UNFIT

    def mark(self) -> None:
        self._marks.append((len(self._stack), len(self._kept), self._held))
        if len(self._marks) > DEEPEST:
            raise UnsoundPickle(f"its values are nested more than {DEEPEST} deep")

    def _since_mark(self) -> list[Any]:
        if not self._marks:
            raise _UNFIT
        start = self._marks.pop()[0]
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _popped(self, count: int) -> list[Any]:
        self._need(count)
        items = self._stack[-count:]
        del self._stack[-count:]
        return items

    def pop(self) -> None:
        if self._marks and self._marks[-1][0] == len(self._stack):
            self._marks.pop()
        else:
            self._popped(1)

    def pop_mark(self) -> None:
        self._since_mark()

    def tuple_of(self, count: int | None) -> None:
        self.push(tuple(self._since_mark() if count is None else self._popped(count) if count else ()))

    def list_of_marked(self) -> None:
        self.push(self._since_mark())

    def dict_of_marked(self) -> None:
        items = self._since_mark()
        self.push({})
        self._update(items)

    def append(self) -> None:
        self._extend(self._popped(1))

    def appends(self) -> None:
        self._extend(self._since_mark())

    def set_item(self) -> None:
        self._update(self._popped(2))

    def set_items(self) -> None:
        mark = self._marks[-1] if self._marks else (0, 0, 0)
        if self._update(self._since_mark()):
            of_kept = sum(len(value) for value in self._kept[mark[1] :])
            self._held = mark[2] + of_kept

    def _extend(self, items: list[Any]) -> None:
        to = self._top()
        if type(to) is not list:
            raise _UNFIT
        to += items

    def _update(self, items: list[Any]) -> bool:
        """Whether the dictionary became something else."""
        to = self._top()
        if type(to) is not dict or len(items) % 2:
            raise _UNFIT
        if not opcodes.KEYS.issuperset(map(type, items[::2])):
            raise UnsoundPickle("a key of it is no plain value")
        to.update(zip(items[::2], items[1::2], strict=True))
        small = to if self._reduced is None else self._reduced(to)
        if small is to:
            return False
        self._stack[-1] = small
        number = self._number_of.pop(id(to), None)
        if number is not None:
            self._memo[number] = small
            self._values.forget(number)
        return True


def _number(code: bytes) -> int:
    return int.from_bytes(code[1:], "little")


_UNFIT = UnsoundPickle("its parts do not fit together")
_PLAIN: dict[bytes, Callable[[_Machine], None]] = {
    b"(": _Machine.mark,
    b"0": _Machine.pop,
    b"1": _Machine.pop_mark,
    b")": lambda machine: machine.tuple_of(0),
    b"\x85": lambda machine: machine.tuple_of(1),
    b"\x86": lambda machine: machine.tuple_of(2),
    b"\x87": lambda machine: machine.tuple_of(3),
    b"t": lambda machine: machine.tuple_of(None),
    b"]": lambda machine: machine.push([]),
    b"}": lambda machine: machine.push({}),
    b"l": _Machine.list_of_marked,
    b"d": _Machine.dict_of_marked,
    b"a": _Machine.append,
    b"e": _Machine.appends,
    b"s": _Machine.set_item,
    b"u": _Machine.set_items,
    b"\x94": _Machine.memoize,
    b"N": lambda machine: machine.push(None),
    b"\x88": lambda machine: machine.push(True),
    b"\x89": lambda machine: machine.push(False),
}
