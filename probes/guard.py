"""Guards that keep a probe from hurting the job: its errors end in one line on stderr, never in the training loop.

Exceptions that the job itself raises meanwhile (in its signal handler) are not the probe's and pass through.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .interrupts import let_out
from .redaction import without_secrets


def say(line: str) -> None:
    """Write one line to stderr's descriptor: the job may have replaced `sys.stderr`."""
    handled = sys.exc_info()[1]
    try:
        if sys.__stderr__ is not None:
            os.write(sys.__stderr__.fileno(), f"diagnose: {line}".splitlines()[0].encode(errors="replace") + b"\n")
    except BaseException as error:
        let_out(error, handled)


def described(error: BaseException) -> str:
    """The error in one line, without secrets that the job may have put into it."""
    handled = sys.exc_info()[1]
    name = type(error).__name__
    try:
        return without_secrets(f"{name}: {error}".splitlines()[0][:300])
    except BaseException as another:
        let_out(another, handled)
        return name


def guarded(call: Callable[[], object], doing: str, failed: Callable[[str], object] | None = None) -> bool:
    """Run `call`; an exception is printed and passed to `failed`. Return whether none was raised.

    Raises:
        BaseException: of the job's own signal handlers alone.
    """
    handled = sys.exc_info()[1]
    try:
        call()
    except BaseException as error:
        let_out(error, handled)
        reason = f"{doing}: {described(error)}"
        say(reason)
        if failed is not None:
            because = failed
            quietly(lambda: because(reason))
        return False
    return True


def quietly(call: Callable[[], object]) -> object:
    """The result of `call`, or None if it raises: for facts that may be missing.

    Raises:
        BaseException: of the job's own signal handlers alone.
    """
    handled = sys.exc_info()[1]
    try:
        return call()
    except BaseException as error:
        let_out(error, handled)
        return None


@contextmanager
def silent() -> Iterator[None]:
    """Ignore warnings of the probe in a job that turns warnings into errors.

    In other jobs nothing is touched: with every change of the filters Python forgets which warnings it has shown.
    """
    if not any(action == "error" for action, *_ in warnings.filters):
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
