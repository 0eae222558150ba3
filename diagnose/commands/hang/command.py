"""`diagnose hang`: the dumps of torch's flight recorder in, who is missing, at which call, with which stack out."""

from pathlib import Path

import click

from diagnose.cli.announcing import announced
from diagnose.cli.command import Command, Option
from diagnose.cli.exit_status import writing
from diagnose.cli.pages import html_option, write_answer
from diagnose.cli.terminal import terminal
from diagnose.commands.hang.answer import to_json
from diagnose.commands.hang.judging import judged
from diagnose.commands.hang.reading import found_in


@click.command(cls=Command, epilog="Example:  diagnose hang diagnose-runs/2026-08-01_12-00-00/")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--earlier",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Earlier dumps of the same job, to see whether it still moves.",
)
@click.option(
    "--details", cls=Option, idle_with={"as_json": ""}, is_flag=True, help="Print every rank and full stacks."
)
@html_option
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object on stdout.")
def hang(folder: Path, earlier: Path | None, details: bool, html: Path | None, as_json: bool) -> None:
    """Say which rank a hanging job waits for and at which call, or which rank calls something else.

    DIR holds the dumps of torch's flight recorder, one file for each rank (nccl_trace_rank_0), or is a folder written
    by `diagnose run`. The dumps are read as data: nothing in them is executed.

    \b
    Exit codes:
      0    the dumps were read, whatever they say
      2    wrong usage
      3    no dump can be used, or the output not written
      70   a bug in diagnose
      130  interrupted
    """
    with announced(folder):
        answer = judged(found_in(folder), found_in(earlier) if earlier is not None else None)
    if html is not None:
        from diagnose.commands.hang.html import hang_page  # its libraries load when a page is asked for

        write_answer(html, lambda about: hang_page(answer, about), folder)
    with writing():
        if as_json:
            click.echo(to_json(answer).encode())
        else:
            from diagnose.commands.hang.text import render

            render(answer, terminal(), details)
