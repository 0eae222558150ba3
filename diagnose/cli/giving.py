"""Print an answer, or write it to files, in the forms that the options of `cli/forms` ask for."""

import contextlib
import io
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from diagnose import __version__
from diagnose.cli.exit_status import writing
from diagnose.cli.forms import HTML, MARKDOWN, STDOUT, TABLES
from diagnose.cli.typed import options_typed
from diagnose.cli.whole_file import is_same_file, write_whole
from diagnose.errors import UserError, printable, to_install

if TYPE_CHECKING:
    from rich.console import Console

    from diagnose.diagnosis.answer import Answer
    from diagnose.report.tables import CapacityTable
    from diagnose.report.views.summary import About

_TO_GET_PARQUET = f"for Parquet beside CSV: {to_install('tables')}"
_OF_A_FILE = 100  # columns


@dataclass(frozen=True, kw_only=True)
class Forms:
    """Functions that make each form of an answer; None if the command has no option for it.

    Each imports what it needs when it is called: a form that nobody asks for costs no time.

    Attributes:
        text: prints it on a console.
        page: the HTML page.
        markdown: the Markdown.
        annotations: lines for a GitHub workflow.
        tables: its tables by name.
    """

    text: Callable[["Console"], object]
    page: "Callable[[About], str] | None" = None
    markdown: "Callable[[About], str] | None" = None
    annotations: Callable[[], Iterable[str]] | None = None
    tables: "Callable[[], Mapping[str, CapacityTable]] | None" = None


def give(answer: "Answer", forms: Forms, given: Mapping[str, Any], *shown: str, reads: Collection[Path] = ()) -> None:
    """Write the requested files, then print the answer, as `write_files` and `show` do."""
    write_files(forms, given, *shown, reads=reads)
    show(answer, forms, given, *shown)


def show(answer: "Answer", forms: Forms, given: Mapping[str, Any], *shown: str) -> None:
    """Prints the answer in the form that was asked for, or writes it to --out.

    Args:
        answer: what --json prints.
        forms: all others.
        given: the options, of those that the command has.
        shown: the command's arguments as they may be printed.

    Raises:
        UserError: it cannot be written.
    """
    content, out = _in_place_of_text(answer, forms, given, shown), given.get("out")
    if out is not None:
        write_file(out, _text(forms).encode() if content is None else content, "the report")
        return
    with writing():
        if content is not None:
            click.echo(content, nl=False)
        else:
            from diagnose.cli.terminal import terminal

            forms.text(terminal())


def write_files(forms: Forms, given: Mapping[str, Any], *shown: str, reads: Collection[Path] = ()) -> None:
    """Write each further file that the user asked for, and report its path on stderr.

    Args:
        forms: the functions that make them.
        given: the options, of those that the command has.
        shown: the command's arguments as they may be printed.
        reads: files that were read, none of which is written over.

    Raises:
        UserError: a file cannot be written.
    """
    html, markdown, tables = (given.get(name) for name in ("html", "markdown", "tables"))
    pages = [(html, forms.page, HTML), (None if markdown == STDOUT else markdown, forms.markdown, MARKDOWN)]
    asked = [(to, made, what) for to, made, what in pages if to is not None and made is not None]
    for to, _, what in asked:
        if any(is_same_file(read, to) for read in reads):
            raise UserError(f"cannot write {what}", where=to, why="it is what is read", do="name another file")
    for to, made, what in asked:
        write_file(to, made(about(shown)).encode(), what)
    if tables is not None and forms.tables is not None:
        _write_tables(forms.tables(), tables)


def write_file(to: Path, content: bytes, what: str, in_new_folder: bool = False) -> None:
    """Write `content` whole or not at all and report its path on stderr.

    Args:
        to: the file.
        content: all of it.
        what: the thing that is written, for the message of an error.
        in_new_folder: whether its folder is made if it is not there.

    Raises:
        UserError: it cannot be written.
    """
    with _writing(to, what):
        if in_new_folder:
            to.parent.mkdir(parents=True, exist_ok=True)
        write_whole(to, content)
    click.echo(f"wrote {printable(str(to))}", err=True)


def _in_place_of_text(answer: "Answer", forms: Forms, given: Mapping[str, Any], shown: tuple[str, ...]) -> bytes | None:
    """Output that replaces the text; None if nothing does."""
    if given.get("as_json"):
        return f"{answer.to_json()}\n".encode()
    if given.get("annotations") and forms.annotations is not None:
        return "".join(f"{line}\n" for line in forms.annotations()).encode()
    if given.get("markdown") == STDOUT and forms.markdown is not None:
        return forms.markdown(about(shown)).encode()
    return None


def _text(forms: Forms) -> str:
    from diagnose.cli.terminal import terminal

    page = io.StringIO()
    forms.text(terminal(file=page, force_terminal=False, width=_OF_A_FILE))
    return page.getvalue()


def about(shown: tuple[str, ...]) -> "About":
    """The command line that made the page: only what the user gave, with paths as they may be printed."""
    from diagnose.report.views.summary import About

    context = click.get_current_context()
    words = ["diagnose", *context.command_path.split()[1:], *shown, *options_typed(context)]
    return About(__version__, shlex.join(words))


def _write_tables(tables: "Mapping[str, CapacityTable]", folder: Path) -> None:
    """Write each table whole or not at all, and report which files of the folder were overwritten."""
    from diagnose.report.tables import csv_of, has_parquet, parquet_of

    forms = {"csv": csv_of} | ({"parquet": parquet_of} if has_parquet() else {})
    there = [f"{name}.{suffix}" for name in tables for suffix in forms if (folder / f"{name}.{suffix}").exists()]
    with _writing(folder, TABLES):
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            for suffix, form in forms.items():
                write_whole(folder / f"{name}.{suffix}", form(table))
    more = f"; overwritten: {', '.join(there)}" if there else ""
    more += "" if has_parquet() else f"; {_TO_GET_PARQUET}"
    click.echo(f"wrote {len(tables)} tables to {printable(str(folder))}{more}", err=True)


@contextlib.contextmanager
def _writing(to: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise UserError(f"cannot write {what}", where=to, why=why, do="name another place") from error
