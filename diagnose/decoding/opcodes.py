"""The opcodes of pickles with plain values, the length of their arguments, and what is refused.

Opcodes: `pickletools` of the standard library, protocols 2 to 5. Torch writes protocol 2 in C++ (`pickle_str`), and
Python its default elsewhere.
"""

from collections.abc import Callable

LONGEST_TEXT = 1 << 20  # bytes; a stack of C++ frames is a text of some thousands
LONGEST_NUMBER = 9  # bytes; addresses and times take 8, and millions of longer ones have one hash

NUMBERS = {b"\x8a": 1, b"\x8b": 4}  # of any length, by the bytes that hold the length
TEXTS = {b"\x8c": 1, b"X": 4, b"\x8d": 8}
BYTES = {b"C": 1, b"B": 4, b"\x8e": 8}
FETCHED = {b"h": 1, b"j": 4}
REMEMBERED = {b"q": 1, b"r": 4}
FIXED = {b"J": (4, "<i"), b"K": (1, "<B"), b"M": (2, "<H"), b"G": (8, ">d")}
PASSED_BY = {b"\x80": 1, b"\x95": 8}  # the protocol, and the length of a frame
KEYS = frozenset({str, bytes, int, float, bool, type(None)})  # to hash a tuple takes as long as whoever wrote it likes
BARE = frozenset(bytes([code]) for code in b"(01)tldaesu]}N\x85\x86\x87\x88\x89\x94")  # nothing follows
STOP = b"."
_SHORT = "it ends in the middle"
_IMPORTS = (b"c", b"i")
_OBJECTS = frozenset(bytes([code]) for code in b"\x93\x82\x83\x84PQRob\x81\x92")

Take = Callable[[int], bytes]
"""Reads so many bytes, fewer only at the end of the file."""


class UnsoundPickle(Exception):
    """The file is no pickle of plain values, or none that a recorder wrote; the message gives the reason."""


def pass_by(take: Take, code: bytes) -> None:
    """Read the argument of an opcode, and no further.

    Raises:
        UnsoundPickle: it is no opcode of plain values, or its argument is too long.
    """
    if code in FIXED:
        exactly(take, FIXED[code][0])
    elif code in REMEMBERED:
        exactly(take, REMEMBERED[code])
    elif code in NUMBERS:
        number(take, code)
    elif code in TEXTS or code in BYTES:
        text(take, code)
    elif code in PASSED_BY:
        exactly(take, PASSED_BY[code])
    else:
        raise UnsoundPickle(_why_refused(take, code))


def exactly(take: Take, count: int) -> bytes:
    """The next `count` bytes."""
    got = take(count)
    if len(got) < count:
        raise UnsoundPickle(_SHORT)
    return got


def whole(take: Take, size: int) -> int:
    """A whole number of `size` bytes, without a sign."""
    got = take(size)
    if len(got) < size:
        raise UnsoundPickle(_SHORT)
    return int.from_bytes(got, "little")


def number(take: Take, code: bytes) -> int:
    """The number of any length that follows `code`."""
    return int.from_bytes(_bounded(take, NUMBERS[code], LONGEST_NUMBER, "number"), "little", signed=True)


def text(take: Take, code: bytes) -> bytes:
    """The bytes of the text that follows `code`."""
    return _bounded(take, TEXTS[code] if code in TEXTS else BYTES[code], LONGEST_TEXT, "text")


def _bounded(take: Take, size: int, most: int, what: str) -> bytes:
    length = whole(take, size)
    if length > most:
        raise UnsoundPickle(f"it has a {what} of {length:,} bytes, where {most:,} are the most")
    return exactly(take, length)


def _why_refused(take: Take, code: bytes) -> str:
    if not code:
        return _SHORT
    if code in _IMPORTS:
        asked = b".".join(take(400).split(b"\n")[:2]).decode("ascii", "replace")
        return f"it asks for {asked[:80]}, and a dump holds plain values alone; nothing of it was run"
    if code in _OBJECTS:
        return "it asks for an object of Python, and a dump holds plain values alone; nothing of it was run"
    return f"it has the opcode {code!r}, which no dump has"
