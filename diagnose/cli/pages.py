"""`--html FILE`: the report as a page, beside what is printed."""

import contextlib
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from diagnose import __version__
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, printable


def _checked(_context: click.Context, _option: click.Parameter, to: Path | None) -> Path | None:
    """Refuses before the analysis what can be seen to fail after it."""
    if to is not None and to.is_dir():
        raise UserError("cannot write the HTML report", where=to, why="it is a folder", do="name a file in it")
    if to is not None and not to.absolute().parent.is_dir():
        raise UserError("cannot write the HTML report", where=to, why="its folder does not exist", do="create it")
    return to


html_option: Callable[[Any], Any] = click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=_checked,
    help="Write the report as one HTML file, too. It needs no network and no JavaScript.",
)


def write_html(diagnosis: Diagnosis, to: Path, shown: str) -> None:
    """Writes the page and says where on stderr; `shown` is how the path of the traces may be printed.

    Raises:
        UserError: the file cannot be written.
    """
    from diagnose.report.html import About, page  # the page's libraries load when one is asked for

    text = page(diagnosis, About(__version__, _command(click.get_current_context(), shown)))
    with _told(to):
        _write_whole(to, text.encode())
    click.echo(f"wrote {printable(str(to))}", err=True)


@contextlib.contextmanager
def _told(to: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise UserError("cannot write the HTML report", where=to, why=why, do="name another file") from error


def _write_whole(to: Path, content: bytes) -> None:
    """The file is there whole or not at all; one that is there already keeps its permissions."""
    if to.exists() and not to.is_file():
        to.write_bytes(content)  # a device or a pipe
        return
    target = to.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _command(context: click.Context, shown: str) -> str:
    """The command line with only what the user gave, and the path as it may be printed."""
    words = ["diagnose", *context.command_path.split()[1:], shown]
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and isinstance(parameter, click.Option):
            words += _words(parameter, context.params[name])
    return shlex.join(words)


def _words(option: click.Option, value: Any) -> list[str]:
    if option.is_flag:
        return [option.opts[-1]]
    values = value if option.multiple else (value,)
    return [word for each in values for word in (option.opts[-1], _word(each))]


def _word(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
