"""Views of a run at intervals, taken in a thread at the lowest priority: whoever prints them still hears keys."""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Iterator

from diagnose.commands.watch.files import Files
from diagnose.commands.watch.glances import Glances
from diagnose.commands.watch.view import View
from diagnose.probes.reporting.report import AT_THE_END_S

_LOOKS_EVERY_S = 0.2


class Following:
    """The views of `glances`, one at once and then one every `every_s` seconds, until `close`; `files` get each."""

    def __init__(self, glances: Glances, every_s: float, files: Files) -> None:
        self._glances, self._every_s, self._files = glances, every_s, files
        self._views: queue.Queue[View | BaseException] = queue.Queue(maxsize=1)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def next(self, within_s: float | None = None) -> View | None:
        """The next view; None if none comes within so many seconds, None: however long it takes.

        Raises:
            Exception: whatever kept the thread from going on.
        """
        try:
            found = self._views.get(timeout=within_s)
        except queue.Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        return found

    def close(self) -> None:
        """Take no more of them."""
        self._over.set()
        self._glances.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # on Linux a priority is that of a thread
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        try:
            while not self._over.is_set():
                view = self._glances.take()
                self._files.write(view)
                self._views.put(view)
                self._over.wait(max(self._every_s, self._glances.rest_s))
        except BaseException as error:
            self._views.put(error)


def until_over(following: Following) -> Iterator[View]:
    """Each view, the last one of a job that has ended."""
    while True:
        view = following.next()
        assert view is not None
        yield view
        if view.is_over:
            return


def once(glances: Glances) -> View:
    """A view with the verdict of the last window, if that is known before long."""
    until = time.monotonic() + AT_THE_END_S
    view = glances.take()
    while glances.is_analysing and time.monotonic() < until:
        time.sleep(_LOOKS_EVERY_S)
        view = glances.take()
    return view
