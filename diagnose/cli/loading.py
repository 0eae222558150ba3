"""The options about how traces are loaded. None of them changes what is found."""

import contextlib
import resource
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from diagnose.cli.numbers import MEMORY
from diagnose.cli.terminal import Bar
from diagnose.trace import Loading

Command = TypeVar("Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--no-cache", is_flag=True, help="Parse the traces anew, and keep nothing of them on disk."),
    click.option(
        "--jobs",
        metavar="N",
        type=click.IntRange(1, 256),
        help="Parse with N processes: a trace each, or a share each of one.  "
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
        help="Take at most so much memory, such as 4G, 256M at least: columns go to disk, Python functions are "
        "left out.",
    ),
    click.option("--python-functions", is_flag=True, help="With --low-memory, keep the events of Python functions."),
)


def loading_options(command: Command) -> Command:
    """Adds the options that `loading_of` reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def loading_of(given: Mapping[str, Any], watch: Bar | None) -> Loading:
    """How to load what the options ask for."""
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
    """The process may take that much for itself meanwhile: what would take more ends with an error."""
    if memory_bytes is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
