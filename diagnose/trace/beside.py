"""Work that a thread does beside what asks for it: a command that is interrupted does not wait for it."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


def beside(work: Callable[[], T]) -> "Future[T]":
    """Begins the work in a daemon thread; what the caller may not do, such as leave some folders, it may not either."""
    from concurrent.futures import Future  # small traces need no thread

    outcome: Future[T] = Future()
    threading.Thread(target=copy_context().run, args=(_done, work, outcome), daemon=True).start()
    return outcome


def _done(work: Callable[[], T], outcome: "Future[T]") -> None:
    try:
        outcome.set_result(work())
    except BaseException as error:
        outcome.set_exception(error)
