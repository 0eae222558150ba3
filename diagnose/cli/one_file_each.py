"""Check, before any work, that each output has a path of its own and none is an input."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import click

from diagnose.cli.whole_file import is_same_file
from diagnose.errors import UserError

_STDOUT = "/dev/stdout"
_DASH = "-"
_OF_TABLES = (".csv", ".parquet")
_OF_PAGES = (".html", ".htm", ".md", ".markdown", ".txt")
Named = tuple[str, Path]  # its name in a message, and its path
Places = Callable[[Mapping[str, Any]], Iterable[Path]]  # further ones, by the parameters


def refuse_clashes(ctx: click.Context, also_reads: Places | None, also_writes: Places | None, prints: bool) -> None:
    """Refuse two outputs at one place, and an output at the place of an input, by whatever names they are given.

    Raises:
        UsageError: there are such; the message names both.
    """
    outputs = [*_outputs(ctx), *_named("what is written", also_writes, ctx)]
    if not outputs:
        return
    printed = [("what is printed", Path(_STDOUT))] if prints and not _is_replaced(ctx) else []
    for (one, at), (other, at_other) in combinations([*outputs, *printed], 2):
        if _clash(at, at_other) or _clash(at_other, at):
            raise click.UsageError(f"{one} and {other} would be one file, {at}: name another for one of them.", ctx)
    inputs = [*_inputs(ctx), *_named("what is read", also_reads, ctx)]
    for output, to in outputs:
        for source, read in inputs:
            if _clash(to, read) or _is_part(to, read):
                raise click.UsageError(f"{output} would overwrite {source}, {to}: name another file.", ctx)


def _named(called: str, places: Places | None, ctx: click.Context) -> Iterator[Named]:
    yield from ((called, path) for path in (places(ctx.params) if places is not None else ()))


def _outputs(ctx: click.Context) -> Iterator[Named]:
    for option in ctx.command.params:
        value = ctx.params.get(str(option.name))
        if getattr(option, "writes", False) and value is not None:
            name, dashed = max(option.opts, key=len), str(value) == _DASH
            if dashed and not _takes_dash(option):
                raise click.UsageError(f"{name} names a file, and - is no name of one.", ctx)
            yield name, Path(_STDOUT) if dashed else Path(value)


def _inputs(ctx: click.Context) -> Iterator[Named]:
    for parameter in ctx.command.params:
        is_read = isinstance(parameter.type, click.Path) or getattr(parameter, "reads", False)
        if not is_read or getattr(parameter, "writes", False):
            continue
        called = "what is read" if isinstance(parameter, click.Argument) else f"the input of {parameter.opts[-1]}"
        value = ctx.params.get(str(parameter.name))
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None and "://" not in str(each):
                text = os.fsdecode(each)
                yield called, Path(text if os.path.lexists(text) else text.partition("#")[0])


def _is_replaced(ctx: click.Context) -> bool:
    """Whether printed output is redirected to a file, or an output is standard output by its name."""
    for option in ctx.command.params:
        value = ctx.params.get(str(option.name))
        if value is not None and (getattr(option, "stands_in", False) or (str(value) == _DASH and _takes_dash(option))):
            return True
    return False


def _takes_dash(option: click.Parameter) -> bool:
    return bool(getattr(option, "writes", False) and getattr(option.type, "allow_dash", False))


def _clash(one: Path, other: Path) -> bool:
    """Whether both are the same place, or `other` is a table in the folder of tables `one`."""
    place, beside = os.path.realpath(one), os.path.realpath(other)
    if os.devnull in (place, beside):
        return False
    if place == beside or is_same_file(Path(place), Path(beside)):
        return True
    return os.path.isdir(place) and os.path.dirname(beside) == place and beside.endswith(_OF_TABLES)


def _is_part(output: Path, read: Path) -> bool:
    """Whether the output is a file in the folder that is read and describes a run, rather than an earlier report."""
    place, folder = os.path.realpath(output), os.path.realpath(read)
    is_within = os.path.isfile(place) and os.path.isdir(folder) and place.startswith(folder.rstrip(os.sep) + os.sep)
    return is_within and not place.lower().endswith(_OF_PAGES) and _tells_of_a_run(Path(place))


def _tells_of_a_run(file: Path) -> bool:
    """Whether the file is a trace, a diagnosis, or named like a file of step times."""
    from diagnose.diagnosis.reading import LARGEST_BYTES, kind_of  # only of a file that would be written over
    from diagnose.series.places import holds_series
    from diagnose.trace.discover import traces_among

    try:
        if holds_series(file.name) or traces_among([file]):
            return True
        return file.stat().st_size <= LARGEST_BYTES and kind_of(file.read_bytes()) != ""
    except (UserError, OSError):
        return True
