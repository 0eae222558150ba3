"""`diagnose fleet`: from the diagnoses and runs of many jobs to the use of their GPU-hours."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from diagnose import analysis
from diagnose.cli.announcing import ProgressBar, announced
from diagnose.cli.command import Command, Option
from diagnose.cli.forms import details_option, html_option, json_option, tables_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.loading import OF_TRACES, limited, loading_of, loading_options
from diagnose.cli.numbers import HOURS, POSITIVE
from diagnose.commands.fleet.accounting import read_accounting
from diagnose.commands.fleet.answer import Fleet
from diagnose.commands.fleet.jobs import Terms
from diagnose.commands.fleet.judging import fleet_of
from diagnose.commands.fleet.reading import read_fleet
from diagnose.commands.fleet.tree import tree_at
from diagnose.trace import displayed

if TYPE_CHECKING:
    from rich.console import Console

    from diagnose.report.tables import CapacityTable
    from diagnose.report.views.summary import About


@click.command(
    cls=Command, epilog="Example:  diagnose fleet /shared/diagnose-runs --accounting jobs.csv --html fleet.html"
)
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option(
    "--accounting",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read a CSV of the jobs: a column job, and gpu_hours, label or gpu_hour_price.",
)
@click.option(
    "--hours", metavar="TIME", type=HOURS, help="Assume that a job ran this long if nothing else shows it: 12h."
)
@click.option("--gpu-hour-price", metavar="F", type=POSITIVE, help="State the price of a GPU-hour in any currency.")
@click.option(
    "--diagnoses-only",
    cls=Option,
    idle_with=dict.fromkeys(OF_TRACES, "--diagnoses-only reads no traces"),
    is_flag=True,
    help="Skip runs that have no diagnosis yet.",
)
@details_option
@html_option
@tables_option
@json_option()
@loading_options
def fleet(folder: str, **given: Any) -> None:
    """Show where a cluster's GPU-hours go and which fixes save most.

    DIR holds diagnoses (written by analyze --json), runs as `diagnose run` or a profiler leaves them, or folders of
    both, at any depth, here or at a URL (s3://, gs://, hf://, ssh://). Each job is counted once, however often it
    appears. What cannot be used is named and left out.

    \b
    Exit codes:
      0    something was read, whatever it says; what was not is named
      2    wrong usage
      3    nothing can be used, or the output not written
      70   a bug in diagnose
      130  interrupted
    """
    answer = _answer(folder, given)
    text = partial(_text, answer, given["details"])
    forms = Forms(text=text, page=partial(_page, answer), tables=partial(_tables, answer))
    give(answer, forms, given, displayed(folder))


def _text(answer: Fleet, details: bool, console: "Console") -> None:
    from diagnose.commands.fleet.text import render

    render(answer, console, details)


def _page(answer: Fleet, about: "About") -> str:
    from diagnose.commands.fleet.html import fleet_page

    return fleet_page(answer, about)


def _tables(answer: Fleet) -> "Mapping[str, CapacityTable]":
    from diagnose.commands.fleet.tables import fleet_tables

    return fleet_tables(answer)


def _answer(folder: str, given: Mapping[str, Any]) -> Fleet:
    accounting = read_accounting(given["accounting"]) if given["accounting"] is not None else {}
    tree = tree_at(folder)
    loading = loading_of(given, None)
    options = analysis.Options(loading=loading, scheduler=given["scheduler"])
    with _watched(tree.shown) as watch, limited(loading.memory_bytes):
        read = read_fleet(tree, options, analyse=not given["diagnoses_only"], watch=watch)
    terms = Terms(accounting, given["hours"], given["gpu_hour_price"], read.armed_h)
    return fleet_of(read, terms, tree.shown)


@contextmanager
def _watched(shown: str) -> Iterator[Callable[[str, int, int], None] | None]:
    """A callback that shows the files being read, on an interactive stderr; None otherwise."""
    with announced(Path(shown)) as bar:
        yield None if bar is None else _of(bar)


def _of(bar: ProgressBar) -> Callable[[str, int, int], None]:
    return lambda place, done, number: bar(Path(place), done, number)
