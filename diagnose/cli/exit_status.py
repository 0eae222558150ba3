"""How a command ends: every outcome is one exit code and at most one message, never a traceback.

Exit codes: 0 ran, 1 --fail-on or --fail-on-regression hit, or slower than a baseline, 2 usage, 3 input (or output) that
cannot be used, 70 a bug in diagnose, 130 interrupted. A reader that closes the pipe early (`| head`) changes none of
them.
"""

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click

from diagnose.errors import UserError, printable

DEFECT = 70
INTERRUPTED = 130
_OURS = str(Path(__file__).parents[1])
_OF_NAMES = {  # what a name leads to, or not: the world's doing
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ESTALE,
    errno.ENOSPC,
    errno.EROFS,
    errno.EDQUOT,
}
_OF_LIMITS = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}  # the system gives this process no more
LONGEST_MESSAGE = 300


def exit_code(action: Callable[[], object]) -> int:
    """Run `action`, report on stderr how it ended, and return the process's exit code."""
    _never_fail_to_encode()
    code, tell = _outcome(action)
    with contextlib.suppress(OSError):
        tell()
    return code


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Write output within this block: a closed pipe ends it quietly, a full disk or closed stdout with a message."""
    if sys.stdout is None:
        raise UserError("cannot write the output", why="standard output is closed")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        _discard_stdout()
        raise UserError("cannot write the output", why=error.strerror or str(error)) from error


def _outcome(action: Callable[[], object]) -> tuple[int, Callable[[], object]]:
    """The exit code, and a function that prints the reason on stderr."""
    try:
        action()
        if sys.stdout is not None:
            with writing():
                pass  # flushes what is still buffered
    except click.exceptions.Exit as exit_:
        return exit_.exit_code, _nothing
    except BrokenPipeError:
        _discard_stdout()
    except click.Abort:
        return INTERRUPTED, lambda: click.echo("interrupted", err=True)
    except KeyboardInterrupt:
        return INTERRUPTED, lambda: click.echo("interrupted", err=True)
    except Exception as error:
        told = explained(error)
        return (DEFECT, partial(_tell_defect, error)) if told is None else (told.exit_code, told.show)
    return 0, _nothing


def _nothing() -> None:
    pass


def _tell_defect(error: Exception) -> None:
    click.echo(defect(error), err=True)


def explained(error: Exception) -> click.ClickException | None:
    """The error with advice for the user; None if it is a bug in diagnose, which has none."""
    if isinstance(error, click.ClickException):
        return error
    if isinstance(error, MemoryError):
        return UserError("out of memory", do="analyse one rank, or use a larger machine")
    if isinstance(error, OSError) and error.errno in _OF_NAMES and not str(error.filename).startswith(_OURS):
        names = isinstance(error.filename, str | bytes | os.PathLike)
        where = os.fsdecode(error.filename) if names else "the working folder"
        why = error.strerror or type(error).__name__
        return UserError("cannot use a file or folder", where=where, why=why, do="name another")
    if isinstance(error, OSError) and error.errno in _OF_LIMITS:
        why = error.strerror or type(error).__name__
        return UserError("the system gives no more", why=why, do="raise the limit (ulimit -n, ulimit -u), or free some")
    return None


def defect(error: Exception) -> str:
    """The line that reports a defect; if DIAGNOSE_TRACEBACK is set, its traceback goes to stderr."""
    if os.environ.get("DIAGNOSE_TRACEBACK"):
        traceback.print_exception(error)
    message = printable(" ".join(str(error).split()))[:LONGEST_MESSAGE]
    named = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{named}; this is a bug in diagnose; run with DIAGNOSE_TRACEBACK=1 for details"


def _discard_stdout() -> None:
    """Discard buffered output, so that the interpreter's last flush is quiet."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _never_fail_to_encode() -> None:
    """Escape characters of a name from a trace that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with contextlib.suppress(ValueError, OSError):
                reconfigure(errors="backslashreplace")
