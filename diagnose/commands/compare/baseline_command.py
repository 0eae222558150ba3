"""`diagnose baseline`: keep a run as a small file under version control, and compare later runs with it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from diagnose.cli.command import Command
from diagnose.cli.forms import annotations_option, html_option, markdown_option
from diagnose.cli.giving import give, write_file
from diagnose.cli.group import Group
from diagnose.cli.loading import loading_options
from diagnose.cli.numbers import SHARE, compared_options
from diagnose.commands.compare.baseline import baseline_file, kept, read, refuse_over_another, written
from diagnose.commands.compare.command import forms_of, noise_option, refuse_of_traces, refuse_two_forms, side_from
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.regression import regression
from diagnose.commands.compare.views import headline
from diagnose.trace import displayed

FOLDER = ".diagnose-baselines"
_folder_option: Callable[[Any], Any] = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=FOLDER,
    show_default=True,
    help="Keep the baselines in DIR.",
)


def _file_of(given: Mapping[str, Any]) -> list[Path]:
    return [baseline_file(Path(given["folder"]), given["name"])]


@click.group(cls=Group, epilog="Example:  diagnose baseline check llama runs/llama/ --tolerance 5%")
def baseline() -> None:
    """Save a run as a reference and warn when a later one is slower."""


@baseline.command(cls=Command, also_writes=_file_of, epilog="Example:  diagnose baseline save llama runs/llama/")
@click.argument("name")
@click.argument("trace", type=click.Path(readable=False))
@_folder_option
@compared_options
@loading_options
def save(name: str, trace: str, folder: Path, **given: Any) -> None:
    """Keep the run of TRACE as the baseline NAME: step times, causes, kernels and configuration, not the trace.

    TRACE is whatever `diagnose compare` takes. The file is the same for the same trace, and names no host and no path.
    """
    file = baseline_file(folder, name)
    refuse_of_traces(trace)
    refuse_over_another(file)
    side = kept(side_from(trace, given), name)
    write_file(file, written(side), "the baseline", in_new_folder=True)


@baseline.command(
    cls=Command, also_reads=_file_of, epilog="Example:  diagnose baseline check llama runs/llama/ --tolerance 5%"
)
@click.argument("name")
@click.argument("trace", type=click.Path(readable=False))
@_folder_option
@click.option(
    "--tolerance",
    metavar="SHARE",
    type=SHARE,
    default="5%",
    show_default=True,
    help="Let the run be slower by this much, beyond the noise.",
)
@noise_option
@click.option("-q", "--quiet", is_flag=True, help="Print only the headline.")
@annotations_option
@html_option
@markdown_option
@compared_options
@loading_options
def check(name: str, trace: str, folder: Path, tolerance: float, noise: float | None, **given: Any) -> None:
    """Compare the run of TRACE with the baseline NAME; exit with 1 if it is slower or cannot be compared.

    \b
    Exit codes:
      0    the run is not slower than the tolerance allows, beyond the noise
      1    it is slower, or it is not the same job as the baseline
      2    wrong usage
      3    the input cannot be used, or there is no such baseline
    """
    refuse_two_forms(given, ("quiet", "annotations"))
    before = read(baseline_file(folder, name))
    refuse_of_traces(trace)
    comparison = compare(before, side_from(trace, given), floor_share=noise)
    why = regression(comparison, tolerance)
    forms = forms_of(comparison, why)
    if given["quiet"]:
        forms = replace(forms, text=lambda _: click.echo(headline(comparison)))
    give(comparison, forms, given, name, displayed(trace))
    if why:
        click.echo(f"regression: {why}", err=True)
        click.get_current_context().exit(1)
