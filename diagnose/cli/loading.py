"""Options on how traces are loaded. None of them changes the diagnosis."""

import contextlib
import resource
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from diagnose.cli.announcing import ProgressBar
from diagnose.cli.command import Option
from diagnose.cli.numbers import MEMORY
from diagnose.trace import Loading

_RESERVED, _MOST_RESERVED_BYTES = 8, 64 << 20  # an eighth of the budget, at most, is left for what comes between looks
_COUNT_EVERY_S, _COUNT_AGAIN_S = 0.01, 2.0
OF_TRACES = ("jobs", "scheduler", "low_memory", "python_functions")  # nothing if no trace is analysed
Command = TypeVar("Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--no-cache", is_flag=True, help="Parse the traces anew, and cache nothing on disk."),
    click.option(
        "--jobs",
        metavar="N",
        type=click.IntRange(1, 256),
        help="Parse with N processes: one trace each, or parts of a single trace.  "
        "[default: by size and idle cores, 4 at most]",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Let the workers of a Dask cluster read the traces: tcp://host:port, or the scheduler's file.",
    ),
    click.option(
        "--low-memory",
        metavar="BYTES",
        type=MEMORY,
        help="Stay below this much memory, such as 4G; at least 256M. Columns go to disk, events of Python functions"
        " are left out.",
    ),
    click.option(
        "--python-functions",
        cls=Option,
        is_flag=True,
        needs="low_memory",
        because="without a limit events of Python functions are kept anyway",
        help="With --low-memory, keep events of Python functions.",
    ),
)


def loading_options(command: Command) -> Command:
    """Adds the options that `loading_of` reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def loading_of(given: Mapping[str, Any], watch: ProgressBar | None) -> Loading:
    """The settings for loading that the options ask for."""
    memory = given["low_memory"]
    return Loading(
        cache=not given["no_cache"],
        jobs=given["jobs"],
        watch=watch,
        memory_bytes=None if memory is None else int(memory),
        python_functions=given["python_functions"],
    )


@contextlib.contextmanager
def limited(memory_bytes: int | None) -> Iterator[None]:
    """Limit the memory that the process takes for itself in the block; more raises a MemoryError.

    The memory taken is counted, and the error raised between two steps of Python when less than a reserve is left. The
    system's limit is the last resort, for one large request, which numpy and Python answer with an error: libraries in
    C do not all check the many small ones, and one that fails inside them can end the process.
    """
    if memory_bytes is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, before[1]))
    try:
        with _counting(memory_bytes - min(memory_bytes // _RESERVED, _MOST_RESERVED_BYTES)):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextlib.contextmanager
def _counting(most_bytes: int) -> Iterator[None]:
    """Raise a MemoryError once the process has taken more; nothing if it cannot be counted.

    If it is more only with the columns on disk that the system caches for it, these are released.
    """
    from diagnose.trace.spill import let_go  # brings numpy, which an answer that is kept does without

    def end_when_too_much(_number: int, _frame: object) -> None:
        resident, taken = _counted() or (0, 0)
        if taken > most_bytes:
            signal.setitimer(signal.ITIMER_REAL, _COUNT_AGAIN_S, _COUNT_AGAIN_S)  # cleanup may finish undisturbed
            raise MemoryError
        if resident > most_bytes:
            let_go()

    if taken_bytes() is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, end_when_too_much)
    signal.setitimer(signal.ITIMER_REAL, _COUNT_EVERY_S, _COUNT_EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)


def taken_bytes() -> int | None:
    """Memory that the process has taken for itself, as the system's limit counts it; None if it is unknown."""
    counted = _counted()
    return None if counted is None else counted[1]


def _counted() -> tuple[int, int] | None:
    """Bytes of memory that are resident for the process, and those that it has taken for itself; None if unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = file.read().split()
        return int(pages[1]) * resource.getpagesize(), int(pages[5]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None
