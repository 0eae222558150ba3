"""Run work in a background daemon thread: an interrupted command does not wait for it."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

T = TypeVar("T")


def in_background(work: Callable[[], T]) -> "Future[T] | None":
    """Begin the work in a daemon thread; limits on the caller, such as folders it may not leave, hold there, too.

    None if the system gives no thread.
    """
    from concurrent.futures import Future  # small traces need no thread

    outcome: Future[T] = Future()
    try:
        threading.Thread(target=copy_context().run, args=(_done, work, outcome), daemon=True).start()
    except RuntimeError:
        return None
    return outcome


@contextlib.contextmanager
def second_thread() -> "Iterator[Executor | None]":
    """A thread that runs one call after another, within a `with`; None if the system gives none."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        yield thread if _has_begun(thread) else None


def _has_begun(thread: "Executor") -> bool:
    try:
        thread.submit(int)
    except RuntimeError:
        return False
    return True


def _done(work: Callable[[], T], outcome: "Future[T]") -> None:
    try:
        outcome.set_result(work())
    except BaseException as error:
        outcome.set_exception(error)
