"""Command: read a snapshot of torch's allocator, and report the contents of its peak and what wastes the rest."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from diagnose import analysis
from diagnose.cli.announcing import announced
from diagnose.cli.command import Command
from diagnose.cli.forms import details_option, html_option, json_option
from diagnose.cli.giving import Forms, give
from diagnose.commands.memory.answer import Counted, MemoryAnswer
from diagnose.commands.memory.judging import judged
from diagnose.commands.memory.snapshot import read
from diagnose.errors import UserError, shown_path

if TYPE_CHECKING:
    from rich.console import Console

    from diagnose.report.views.summary import About

_SUFFIXES = (".pickle", ".pkl")


@click.command(cls=Command, epilog="Example:  diagnose memory oom_snapshot.pickle")
@click.argument("path", metavar="FILE|RUN", type=click.Path(path_type=Path, readable=False))
@details_option
@html_option
@json_option()
def memory(path: Path, **given: Any) -> None:
    """Show what fills GPU memory at its peak and why an allocation failed.

    FILE is what torch.cuda.memory._dump_snapshot wrote. RUN is a folder with such a file; one written by `diagnose
    run` also has the memory ledger. The file is read as data: nothing in it is executed.

    \b
    Exit codes:
      0    the snapshot was read, whatever it says
      2    wrong usage
      3    it cannot be used, or the output not written
      70   a bug in diagnose
      130  interrupted
    """
    file, others = _chosen(path)
    with announced(file):
        answer = judged(read(file), [shown_path(other) for other in others])
        if path.is_dir():
            answer = _with_ledger(answer, path)
    forms = Forms(text=partial(_text, answer, given["details"]), page=partial(_page, answer))
    give(answer, forms, given, shown_path(file), reads=(file,))


def _text(answer: MemoryAnswer, details: bool, console: "Console") -> None:
    from diagnose.commands.memory.text import render

    render(answer, console, details)


def _page(answer: MemoryAnswer, about: "About") -> str:
    from diagnose.commands.memory.html import memory_page

    return memory_page(answer, about)


def _chosen(path: Path) -> tuple[Path, list[Path]]:
    """The snapshot to read and further ones of a folder; one that is named after an OOM goes first."""
    if not path.is_dir():
        return path, []
    named = sorted(entry for entry in path.iterdir() if entry.suffix in _SUFFIXES and entry.is_file())
    named.sort(key=lambda entry: "oom" not in entry.name.lower())
    if not named:
        raise UserError(
            "no memory snapshot",
            where=shown_path(path),
            why=f"the folder has no file that ends with {' or '.join(_SUFFIXES)}",
            do="write one with torch.cuda.memory._dump_snapshot; see docs/memory.md",
        )
    return named[0], named[1:]


def _with_ledger(answer: MemoryAnswer, run: Path) -> MemoryAnswer:
    """The answer with the memory ledger of the run's traces, or why there is none."""
    if not any(run.glob("*.json*")):
        return replace(answer, not_counted="there are no traces of the run beside the snapshot")
    try:
        capacity = analysis.analyze(run).capacity
    except UserError as error:
        return replace(answer, not_counted=error.what)
    if capacity.counted is None:
        return replace(answer, not_counted=capacity.because)
    parts = sorted(capacity.counted.parts, key=lambda part: -part.bytes)
    return replace(answer, counted=tuple(Counted(name=part.name, bytes=part.bytes) for part in parts))
