"""A record of the hashes of files: a file that nothing has written to since need not be read to find its entry.

A file is identified by its device, number, size and times. Any write to it, whatever happens to its other times, moves
the time of its last change, which no program can set. A file changed within seconds before it was hashed is not
recorded: two changes that close may have the same time.
"""

import contextlib
import os
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec

from diagnose.trace.ownership import MARK, own_file

State = tuple[int, int, int, int, int]

NAME = "diagnose-contents"
SETTLED_AFTER_NS = 3_000_000_000  # file systems count time in steps of 2 s at most
_MOST = 512
_MOST_BYTES = 1 << 20
_Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
_decode = msgspec.json.Decoder(dict[str, _Hash]).decode


def state_of(path: Path) -> State:
    """The state of a file, changed by any write to it: device, number, size, and times of the last write and change.

    Raises:
        OSError: there is no such file.
    """
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


class Contents:
    """The contents of the files that were hashed last, kept in a file of `folder`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / NAME

    def of(self, state: State) -> str | None:
        """The hash of the file in this state, None if not known."""
        return self._known.get(_text(state))

    def remember(self, state: State, content: str) -> None:
        """Record the hash, unless a file of the user's has the name of the record.

        Raises:
            OSError: the file cannot be written.
        """
        if self.of(state) == content or (self._file.exists() and not self._marked):
            return
        latest = {**self._known, _text(state): content}
        self._known = dict([*latest.items()][-_MOST:])
        handle, name = tempfile.mkstemp(prefix="diagnose-", suffix=".part", dir=self._file.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MARK + msgspec.json.encode(self._known))
            os.replace(name, self._file)
        finally:
            Path(name).unlink(missing_ok=True)

    @cached_property
    def _known(self) -> Mapping[str, str]:
        """The recorded hashes; empty if the record is damaged."""
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            return _decode(self._marked) if self._marked else {}
        return {}

    @property
    def _marked(self) -> bytes:
        """The content of the file after the cache's mark; empty if the file is another's."""
        with contextlib.suppress(OSError), own_file(self._file) as file:
            text = file.read(_MOST_BYTES)
            return text.removeprefix(MARK) if text.startswith(MARK) else b""
        return b""


def _text(state: State) -> str:
    return " ".join(map(str, state))
