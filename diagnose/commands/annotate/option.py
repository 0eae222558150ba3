"""The option `--annotate FILE`: the trace with the diagnosis in it, for a viewer such as ui.perfetto.dev."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from diagnose.analysis.late import imported
from diagnose.cli.command import Option
from diagnose.cli.whole_file import is_same_file, whole_file
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, printable

if TYPE_CHECKING:
    from diagnose.analysis import Examined, Options


def _checked(_context: click.Context, _option: click.Parameter, to: Path | None) -> Path | None:
    """Refuse, before the analysis, a file that cannot be written."""
    if to is not None and (os.path.isdir(to) or not os.path.isdir(to.parent)):
        why = "it is a folder" if os.path.isdir(to) else "its folder does not exist"
        raise UserError("cannot write the annotated trace", where=to, why=why, do="name a file in a folder that exists")
    return to


annotate_option: Callable[[Any], Any] = click.option(
    "--annotate",
    cls=Option,
    writes=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=_checked,
    help="Write the trace with an added track of findings, for ui.perfetto.dev; compressed if FILE ends in .gz.",
)


def annotated(path: str, options: "Options", to: Path) -> Diagnosis:
    """Write the annotated trace of a path, report its file on stderr, and return the diagnosis.

    Raises:
        UserError: the input cannot be used, or the file not be written, or it is a trace it would be made from.
    """
    job = imported("diagnose.analysis.job")
    with job.examined(path, options) as analysed:
        _write(analysed, to)
        click.echo(f"wrote {printable(str(to))}: open it in ui.perfetto.dev", err=True)
        diagnosis: Diagnosis = analysed.diagnosis
        return diagnosis


def _write(analysed: "Examined", to: Path) -> None:
    from diagnose.commands.annotate.writing import write_annotated  # only those who ask for it wait for the import

    if any(is_same_file(Path(m.timeline.trace.path), to) for m in analysed.measured):
        raise UserError("cannot write the annotated trace", where=to, why="it is the trace", do="name another file")
    try:
        with whole_file(to) as file:
            write_annotated(analysed.diagnosis, analysed.measured, file, compressed=to.name.endswith(".gz"))
    except OSError as error:
        why = error.strerror or str(error)
        raise UserError("cannot write the annotated trace", where=to, why=why, do="name another file") from error
