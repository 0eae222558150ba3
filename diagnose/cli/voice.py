"""Output next to a running job's own. A slow, full or closed pipe delays nobody and breaks nothing."""

import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TextIO

from diagnose.errors import UserError, printable

_PATIENCE_S = 10.0


class Voice:
    """One of this process's streams, written to in a thread that nobody has to wait for.

    Args:
        stream: sys.stdout or sys.stderr; None, as for Python, when it is closed.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._number = _number_of(stream)
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._last: threading.Thread | None = None

    def say(self, text: str) -> None:
        """Write `text`; returns when it is written, or after some seconds when nobody reads."""
        if self._number is None:
            return
        data = text.encode(self._encoding, "backslashreplace")
        thread = threading.Thread(target=_write_unstopped, args=(self._number, data, self._last), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads for this user
            _write(self._number, data, self._last)
            return
        waits = self._last is not None and self._last.is_alive()  # long enough already
        self._last = thread
        thread.join(0 if waits else _PATIENCE_S)


def stdout() -> Voice:
    """The voice on stdout, for a report that a person reads there."""
    return _voice("stdout")


def stderr() -> Voice:
    """The voice on stderr, for progress, and for the report if a file or a program takes the job's output."""
    return _voice("stderr")


def say(line: str) -> None:
    """One line on stderr."""
    stderr().say(f"diagnose: {line}\n")


def guarded(action: Callable[[], object], failed: str = "no report") -> bool:
    """Run `action` and return whether it succeeded; a failure is printed and does not change how the command ends."""
    try:
        action()
        return True
    except UserError as error:
        say(f"{failed}: {error.format_message()}")
    except KeyboardInterrupt:
        say(f"{failed}: interrupted")
    except OSError as error:
        where = f": {printable(str(error.filename))}" if error.filename is not None else ""
        _say_error(error, f"{failed}: {error.strerror or type(error).__name__}{where}")
    except Exception as error:
        _say_error(error, f"{failed}: {type(error).__name__}: {printable(' '.join(str(error).split()))[:300]}")
    return False


def _say_error(error: Exception, line: str) -> None:
    if os.environ.get("DIAGNOSE_TRACEBACK"):
        stderr().say("".join(traceback.format_exception(error)))
    say(line)


def _voice(name: str) -> Voice:
    stream = getattr(sys, name)
    if name not in _voices or _voices[name][0] is not stream:
        _voices[name] = stream, Voice(stream)
    return _voices[name][1]


def _number_of(stream: TextIO | None) -> int | None:
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):
        return None


def _write_unstopped(number: int, data: bytes, after: threading.Thread | None) -> None:
    """Write with SIGTTOU blocked: a terminal may stop every process of a background job of which one writes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    _write(number, data, after)


def _write(number: int, data: bytes, after: threading.Thread | None) -> None:
    if after is not None:
        after.join()
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(number, left) :]
        except BlockingIOError:  # the stream was made non-blocking
            select.select([], [number], [])
        except OSError:
            return


_voices: dict[str, tuple[object, Voice]] = {}
