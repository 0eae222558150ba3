"""The moments of a process: each time that it is about to change a file, where it can be killed or refused.

Python tells a hook of each before it happens. Between two of them a process only computes, and writes into what it has
opened, so that a kill at each of them is a kill at every moment that a file could tell.
"""

import errno
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

How = Literal["kill", "full", "read-only", "clock", "nothing"]
_CHANGES = {
    "os.rename", "os.remove", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.utime",
    "subprocess.Popen",
}  # fmt: skip
_GROWS = {"os.mkdir", "os.link", "os.symlink", "os.rename"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_NOT_FILES = ("/dev/", "/proc/", "/sys/")


class Moments:
    """Counts the moments of this process, and at the one with a number does what is to be done.

    Args:
        how: "kill" ends the process there. From there on, a disk that is "full" refuses what makes something new, and
            one that is "read-only" refuses every change; with "clock" the wall clock jumps up to a year either way at
            each reading.
        at: the number, from 1.
        tell: called with the number of each moment, so that who waits knows how many there were.
    """

    def __init__(self, how: How, at: int, tell: Callable[[int], object]) -> None:
        self.how, self.at, self.count, self._tell = how, at, 0, tell

    def begin(self) -> None:
        """From now on; there is no end to it but that of the process."""
        if self.how == "clock":
            _jumping()
        sys.addaudithook(self._met)

    def _met(self, event: str, given: tuple[Any, ...]) -> None:
        opens = event == "open" and _is_change(given)
        if not opens and event not in _CHANGES:
            return
        self.count += 1
        self._tell(self.count)
        if self.count < self.at:
            return
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "full" and (event in _GROWS or (opens and _makes(given))):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), _name(given))
        if self.how == "read-only" and event != "subprocess.Popen":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), _name(given))


def _is_change(given: tuple[Any, ...]) -> bool:
    path, _, flags = given
    if isinstance(path, int) or not isinstance(flags, int) or not flags & _WRITING:
        return False
    return not os.fsdecode(path).startswith(_NOT_FILES)


def _makes(given: tuple[Any, ...]) -> bool:
    return bool(given[2] & (os.O_CREAT | os.O_TRUNC | getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY))


def _name(given: tuple[Any, ...]) -> str:
    return os.fsdecode(given[0]) if given and isinstance(given[0], str | bytes | os.PathLike) else ""


def _jumping() -> None:
    """The wall clock of this process; the monotonic ones cannot jump."""
    drawn, now, now_ns = random.Random(1), time.time, time.time_ns
    year_s = 365 * 86_400
    time.time = lambda: now() + drawn.randint(-year_s, year_s)
    time.time_ns = lambda: now_ns() + drawn.randint(-year_s, year_s) * 10**9
