"""`diagnose watch`: see how an armed job is doing, from the files in its folder."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from diagnose.cli.command import Command, Option
from diagnose.cli.exit_status import writing
from diagnose.cli.numbers import Number
from diagnose.errors import printable

if TYPE_CHECKING:
    from diagnose.commands.watch.files import Files
    from diagnose.commands.watch.following import Following
    from diagnose.commands.watch.glances import Glances

EVERY_S = 2.0


@click.command(cls=Command, epilog="Example:  diagnose watch diagnose-runs/2026-01-02_03-04-05")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--every",
    cls=Option,
    idle_with={"once": ""},
    metavar="S",
    type=Number(min=0.1, max=3600),
    default=EVERY_S,
    help=f"Look every S seconds (default: {EVERY_S:g}).",
)
@click.option("--once", is_flag=True, help="Print the view once, and end.")
@click.option(
    "--page",
    cls=Option,
    writes=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write each view as one HTML file that reloads itself, without network or JavaScript.",
)
@click.option(
    "--prometheus",
    cls=Option,
    writes=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write each view for the textfile collector of Prometheus's node exporter, which reads names in .prom.",
)
@click.option(
    "--otlp",
    cls=Option,
    writes=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also append each view as a line of OTLP metrics in JSON, for the file receiver of OpenTelemetry's collector.",
)
def watch(run: Path, every: float, once: bool, page: Path | None, prometheus: Path | None, otlp: Path | None) -> None:
    """See how a job runs that was started with `diagnose run --arm`, and whether it still does.

    RUN is the folder of that job, here or on a file system that both machines see. Only its files are read, and the job
    notices nothing. On a terminal the view stays in its place: q or Ctrl-C ends it, and so does the end of the job.
    Elsewhere each look is one line.
    """
    from diagnose.commands.watch.following import Following
    from diagnose.commands.watch.glances import Glances

    glances, files = Glances(run), _files(run, every, page, prometheus, otlp)
    with contextlib.suppress(KeyboardInterrupt), writing():
        if once:
            _print_once(glances, files)
            return
        following = Following(glances, every, files)
        with contextlib.closing(following):
            _follow(following)


def _files(run: Path, every_s: float, page: Path | None, prometheus: Path | None, otlp: Path | None) -> "Files":
    """The files that are asked for, each with what makes its content."""
    from diagnose.commands.watch.files import Files, Form

    name, forms = run.resolve().name, dict[Path, Form]()
    if page is not None:
        from diagnose.cli.giving import about
        from diagnose.commands.watch.html import watch_page

        of_page = about((printable(str(run)),))
        forms[page] = lambda view: watch_page(view, name, of_page, every_s)
    if prometheus is not None:
        from diagnose.commands.watch.prometheus import exposition

        forms[prometheus] = lambda view: exposition(view, name)
    if otlp is not None:
        from diagnose.commands.watch.otlp import otlp_line

        return Files(forms, {otlp: lambda view: otlp_line(view, name)})
    return Files(forms)


def _print_once(glances: "Glances", files: "Files") -> None:
    from diagnose.cli.terminal import terminal
    from diagnose.commands.watch.following import once
    from diagnose.commands.watch.text import render

    with contextlib.closing(glances):
        view = once(glances)
    files.write(view)
    render(view, terminal())


def _follow(following: "Following") -> None:
    from diagnose.commands.watch.following import until_over
    from diagnose.commands.watch.lines import one_line
    from diagnose.commands.watch.live import show_live

    if sys.stdout.isatty():
        show_live(following)
        return
    for view in until_over(following):
        click.echo(one_line(view))
        sys.stdout.flush()
