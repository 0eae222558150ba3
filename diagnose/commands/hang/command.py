"""Command: read flight-recorder dumps and report the missing rank, its call and its stack."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from diagnose.cli.announcing import announced
from diagnose.cli.command import Command
from diagnose.cli.forms import details_option, html_option, json_option
from diagnose.cli.giving import Forms, give
from diagnose.commands.hang.answer import Hang
from diagnose.commands.hang.judging import judged
from diagnose.commands.hang.reading import found_in
from diagnose.errors import shown_path

if TYPE_CHECKING:
    from rich.console import Console

    from diagnose.report.views.summary import About


@click.command(cls=Command, epilog="Example:  diagnose hang diagnose-runs/2026-08-01_12-00-00/")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--earlier",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Compare with earlier dumps of the same job, to see whether it still moves.",
)
@details_option
@html_option
@json_option()
def hang(folder: Path, earlier: Path | None, **given: Any) -> None:
    """Find the rank that a hanging job waits for.

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
    forms = Forms(text=partial(_text, answer, given["details"]), page=partial(_page, answer))
    give(answer, forms, given, shown_path(folder), reads=(folder,))


def _text(answer: Hang, details: bool, console: "Console") -> None:
    from diagnose.commands.hang.text import render

    render(answer, console, details)


def _page(answer: Hang, about: "About") -> str:
    from diagnose.commands.hang.html import hang_page

    return hang_page(answer, about)
