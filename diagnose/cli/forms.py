"""The options that ask for a form of an answer: each is made here, and means the same wherever a command has it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from diagnose.cli.command import Option
from diagnose.cli.severity import SEVERITIES
from diagnose.errors import UserError

STDOUT = Path("-")
HTML, MARKDOWN, TABLES = "the HTML report", "the Markdown report", "the tables"
Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]


def json_option(what: str = "the answer", says: str = "") -> Decorator:
    """The option `--json`, which prints `what` as one object; `says` replaces the help text."""
    return click.option("--json", "as_json", is_flag=True, help=says or f"Print {what} as one JSON object on stdout.")


def out_option(says: str, *names: str, **more: Any) -> Decorator:
    """`--out`: a file or folder that is written."""
    kind = click.Path(path_type=Path)
    return click.option(*names, "--out", cls=Option, writes=True, type=kind, help=says, **more)


def _checked(_context: click.Context, option: click.Parameter, to: Path | None) -> Path | None:
    """Refuse, before the analysis, a file that cannot be written."""
    what = f"cannot write {MARKDOWN if option.name == 'markdown' else HTML}"
    if to is None or (to == STDOUT and option.name == "markdown"):
        return to
    if os.path.isdir(to):
        raise UserError(what, where=to, why="it is a folder", do="name a file in it")
    if not os.path.isdir(to.parent):
        raise UserError(what, where=to, why="its folder does not exist", do="create it")
    return to


def _folder(_context: click.Context, _option: click.Parameter, to: Path | None) -> Path | None:
    if to is not None and os.path.exists(to) and not os.path.isdir(to):
        raise UserError(f"cannot write {TABLES}", where=to, why="it is not a folder", do="name a folder")
    return to


def html_option_of(what: str, **more: Any) -> Decorator:
    """`--html`: a file to which `what` is written as a page."""
    return click.option(
        "--html",
        cls=Option,
        writes=True,
        metavar="FILE",
        type=click.Path(path_type=Path),
        callback=_checked,
        help=f"Also write {what} as one HTML file, readable without network or JavaScript.",
        **more,
    )


html_option: Decorator = html_option_of("the report")
details_option: Decorator = click.option(
    "--details",
    cls=Option,
    idle_with={"as_json": ""},
    is_flag=True,
    help="Print everything: every row, finding, reason and stack.",
)
markdown_option: Decorator = click.option(
    "--markdown",
    cls=Option,
    writes=True,
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    callback=_checked,
    help="Also write the report as Markdown below 4,000 tokens; with - print it instead.",
)
tables_option: Decorator = click.option(
    "--tables",
    cls=Option,
    writes=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    callback=_folder,
    help="Also write each table of the report as CSV, and as Parquet if pyarrow is installed.",
)
annotations_option: Decorator = click.option(
    "--annotations", is_flag=True, help="Print GitHub workflow annotations instead of the report."
)
fail_on_option: Decorator = click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES[::-1]),
    help="Exit with 1 if a finding is at least this severe; in a run with --arm, a finding of any window.",
)


def page_options(command: Command) -> Command:
    """Add the options that write further forms of the output: tables, Markdown and HTML."""
    for option in (tables_option, markdown_option, html_option):
        command = option(command)
    return command
