"""A file that is read from its begin to its end, with a look at the bytes that come next."""

from typing import BinaryIO

PART = 1 << 20  # bytes that are read at a time, and the grain in which it is known how far a value is needed


class LookAhead:
    """A buffer of the bytes that come next in a file.

    Attributes:
        data: the bytes that are held.
        at: position of the next byte within them.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._read = file.read
        self._begin = 0
        self.data = b""
        self.at = 0

    @property
    def passed_bytes(self) -> int:
        """Position of the next byte in the file."""
        return self._begin + self.at

    @property
    def part(self) -> int:
        """The part of the file in which the next byte is, from 1."""
        return self.passed_bytes // PART + 1

    def take(self, count: int) -> bytes:
        """The next `count` bytes, fewer only at the end of the file."""
        end = self.at + count
        if end > len(self.data):
            self.look_on(count)
            end = min(count, len(self.data))
        found = self.data[self.at : end]
        self.at = end
        return found

    def look_on(self, count: int = 1) -> bool:
        """Read until `count` bytes are ahead; False at the end of the file."""
        self._begin += self.at
        more = self._read(max(PART, count))
        self.data = self.data[self.at :] + more
        self.at = 0
        return bool(more)
