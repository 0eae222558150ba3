"""The keys that are typed while something else goes on, where a person types at all."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator

_LONGEST = 64


class Keys:
    """The input of the terminal whose descriptor is `number`; with None nobody types."""

    def __init__(self, number: int | None) -> None:
        self._number = number

    def typed(self, within_s: float) -> str:
        """The keys that are typed within so many seconds, "" if none is."""
        if self._number is None:
            time.sleep(within_s)
            return ""
        if not select.select([self._number], [], [], within_s)[0]:
            return ""
        keys = os.read(self._number, _LONGEST)
        if not keys:  # the terminal is gone
            self._number = None
        return keys.decode(errors="replace")


@contextlib.contextmanager
def keys() -> Iterator[Keys]:
    """The keys without a line end, and unseen; the terminal is as before at the end."""
    number = _terminal()
    if number is None:
        yield Keys(None)
        return
    import termios
    import tty

    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield Keys(number)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _terminal() -> int | None:
    """Standard input if it is a terminal in whose foreground this process is: another is stopped if it reads there."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        number = sys.stdin.fileno()
        if os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp():
            return number
    return None
