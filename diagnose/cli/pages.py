"""`--html`, `--markdown` and `--tables`: the report as files, beside what is printed."""

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from diagnose import __version__
from diagnose.cli.command import Option
from diagnose.cli.typed import options_typed
from diagnose.cli.whole_file import is_same_file, whole_file
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, printable, shown_path, to_install

if TYPE_CHECKING:
    from diagnose.report.tables import Table
    from diagnose.report.views.summary import About

STDOUT = Path("-")
Command = TypeVar("Command", bound=Callable[..., Any])
_HTML, _MARKDOWN, _TABLES = "the HTML report", "the Markdown report", "the tables"
_TO_GET_PARQUET = f"for Parquet beside CSV: {to_install('tables')}"


def _checked(_context: click.Context, option: click.Parameter, to: Path | None) -> Path | None:
    """Refuses before the analysis what can be seen to fail after it."""
    what = f"cannot write {_MARKDOWN if option.name == 'markdown' else _HTML}"
    if to is None or (to == STDOUT and option.name == "markdown"):
        return to
    if os.path.isdir(to):
        raise UserError(what, where=to, why="it is a folder", do="name a file in it")
    if not os.path.isdir(to.parent):
        raise UserError(what, where=to, why="its folder does not exist", do="create it")
    return to


def _folder(_context: click.Context, _option: click.Parameter, to: Path | None) -> Path | None:
    if to is not None and os.path.exists(to) and not os.path.isdir(to):
        raise UserError(f"cannot write {_TABLES}", where=to, why="it is not a folder", do="name a folder")
    return to


html_option: Callable[[Any], Any] = click.option(
    "--html",
    cls=Option,
    writes=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=_checked,
    help="Also write the report as one HTML file, readable without network or JavaScript.",
)
markdown_option: Callable[[Any], Any] = click.option(
    "--markdown",
    cls=Option,
    writes=True,
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    callback=_checked,
    help="Also write the report as Markdown below 4,000 tokens; with - print it instead.",
)
tables_option: Callable[[Any], Any] = click.option(
    "--tables",
    cls=Option,
    writes=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    callback=_folder,
    help="Also write each table of the report as CSV, and as Parquet if pyarrow is installed.",
)


def page_options(command: Command) -> Command:
    """Adds the options that `write_pages` reads."""
    for option in (tables_option, markdown_option, html_option):
        command = option(command)
    return command


def write_pages(diagnosis: Diagnosis, given: Mapping[str, Any], shown: str) -> None:
    """Writes each file that was asked for and says where on stderr; `shown` is the path as it may be printed.

    Raises:
        UserError: a file cannot be written.
    """
    for to in (given["html"], given["markdown"]):
        if to is not None and any(is_same_file(Path(file), to) for file in diagnosis.trace.files):
            raise UserError("cannot write the report", where=to, why="it is a trace", do="name another file")
    if given["html"] is not None:
        write_html(diagnosis, given["html"], shown)
    if given["markdown"] is not None and given["markdown"] != STDOUT:
        write_markdown(diagnosis, given["markdown"], shown)
    if given["tables"] is not None:
        write_tables(diagnosis, given["tables"])


def write_html(diagnosis: Diagnosis, to: Path, shown: str) -> None:
    """Writes the page and says where on stderr; `shown` is how the path of the traces may be printed.

    Raises:
        UserError: the file cannot be written.
    """
    from diagnose.report.html import About, page  # the page's libraries load when one is asked for

    text = page(diagnosis, About(__version__, _command(click.get_current_context(), shown)))
    with _told(to, _HTML):
        _write_whole(to, text.encode())
    click.echo(f"wrote {printable(str(to))}", err=True)


def write_answer(to: Path, page: "Callable[[About], str]", read: Path | str) -> None:
    """Writes the page of an answer that is no diagnosis and says where on stderr.

    Args:
        to: the file.
        page: makes the page.
        read: what the command was given, which is not written over; a text as it may be printed.

    Raises:
        UserError: the file cannot be written.
    """
    from diagnose.report.views.summary import About

    if isinstance(read, Path) and is_same_file(read, to):
        raise UserError(f"cannot write {_HTML}", where=to, why="it is what is read", do="name another file")
    text = page(About(__version__, _command(click.get_current_context(), shown_path(read))))
    write_file(to, text.encode(), _HTML)


def print_markdown(diagnosis: Diagnosis, shown: str) -> None:
    """The Markdown on stdout."""
    click.echo(_markdown(diagnosis, shown).encode(), nl=False)


def write_markdown(diagnosis: Diagnosis, to: Path, shown: str) -> None:
    """Writes the Markdown and says where on stderr, as `write_html` does."""
    with _told(to, _MARKDOWN):
        _write_whole(to, _markdown(diagnosis, shown).encode())
    click.echo(f"wrote {printable(str(to))}", err=True)


def write_tables(diagnosis: Diagnosis, folder: Path) -> None:
    """Writes the tables of the diagnosis, as `write_table_files` does."""
    from diagnose.report.tables import tables_of

    write_table_files(tables_of(diagnosis), folder)


def write_table_files(tables: "Mapping[str, Table]", folder: Path) -> None:
    """Writes each table whole or not at all, and says which files of the folder it took the place of.

    Raises:
        UserError: the folder or a file cannot be written.
    """
    from diagnose.report.tables import csv_of, has_parquet, parquet_of

    forms = {"csv": csv_of} | ({"parquet": parquet_of} if has_parquet() else {})
    there = [f"{name}.{suffix}" for name in tables for suffix in forms if (folder / f"{name}.{suffix}").exists()]
    with _told(folder, _TABLES):
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            for suffix, form in forms.items():
                _write_whole(folder / f"{name}.{suffix}", form(table))
    more = f"; overwritten: {', '.join(there)}" if there else ""
    more += "" if has_parquet() else f"; {_TO_GET_PARQUET}"
    click.echo(f"wrote {len(tables)} tables to {printable(str(folder))}{more}", err=True)


def _markdown(diagnosis: Diagnosis, shown: str) -> str:
    from diagnose.report.markdown import markdown
    from diagnose.report.views.summary import About

    return markdown(diagnosis, About(__version__, _command(click.get_current_context(), shown)))


def write_file(to: Path, content: bytes, what: str) -> None:
    """Writes `content` whole or not at all and says where on stderr.

    Args:
        to: the file.
        content: all of it.
        what: the thing that is written, for the message of an error.

    Raises:
        UserError: it cannot be written.
    """
    with _told(to, what):
        _write_whole(to, content)
    click.echo(f"wrote {printable(str(to))}", err=True)


@contextlib.contextmanager
def _told(to: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise UserError(f"cannot write {what}", where=to, why=why, do="name another place") from error


def _write_whole(to: Path, content: bytes) -> None:
    with whole_file(to) as file:
        file.write(content)


def _command(context: click.Context, shown: str) -> str:
    """The command line with only what the user gave, and the path as it may be printed."""
    return shlex.join(["diagnose", *context.command_path.split()[1:], shown, *options_typed(context)])
