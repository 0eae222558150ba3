"""`diagnose ledger`: how often changes achieved their predictions on this machine."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from diagnose.cli.command import Command, Option
from diagnose.cli.forms import json_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.users_data import default_folder, why_off
from diagnose.cli.whole_file import whole_file
from diagnose.commands.ledger import file
from diagnose.commands.ledger.lines import RecordedPredictions
from diagnose.commands.ledger.prediction import Prediction
from diagnose.commands.ledger.tally import report_of
from diagnose.commands.ledger.text import render
from diagnose.errors import UserError, printable
from diagnose.report.views.words import counted


def _own(_given: Mapping[str, Any]) -> list[Path]:
    """The file of the ledger, if it can have a folder."""
    try:
        return [default_folder() / file.NAME]
    except OSError:
        return []


@click.command(cls=Command, also_reads=_own, epilog="Example:  diagnose ledger --export promises.json")
@json_option()
@click.option(
    "--export",
    cls=Option,
    writes=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the predictions to FILE, to share them.",
)
@click.option("--clear", is_flag=True, help="Forget all predictions.")
@click.option(
    "--yes",
    cls=Option,
    needs="clear",
    because="nothing else asks",
    is_flag=True,
    help="With --clear, do not ask for confirmation.",
)
def ledger(export: Path | None, clear: bool, yes: bool, **given: Any) -> None:
    """Show how well earlier predictions came true.

    `diagnose run --apply` appends each prediction and its measurement to a file on this machine. Nothing is sent
    anywhere.
    """
    if given["as_json"] + clear + (export is not None) > 1:
        raise click.UsageError("Choose one of --json, --export and --clear.")
    if clear:
        _clear(yes)
        return
    found = _kept()
    if export is not None:
        _export(found, export)
        return
    report = report_of(found, why_off())
    give(report, Forms(text=partial(render, report, _shown())), given)


def _kept() -> RecordedPredictions:
    try:
        return file.read(default_folder())
    except OSError as error:
        raise _unusable(error) from error


def _clear(yes: bool) -> None:
    found = _kept()
    if not found.predictions and not found.unreadable:
        click.echo("no predictions are kept")
        return
    if not yes and not _is_asked_in_a_terminal():
        raise click.UsageError("--clear asks only in a terminal: pass --yes.")
    if not yes and not click.confirm(f"Forget {counted(len(found.predictions), 'prediction')} in {_shown()}?"):
        click.echo("nothing is forgotten")
        return
    try:
        file.clear(default_folder())
    except OSError as error:
        raise _unusable(error) from error
    click.echo(f"{counted(len(found.predictions), 'prediction')} forgotten")


def _is_asked_in_a_terminal() -> bool:
    return sys.stdin.isatty()


def _export(found: RecordedPredictions, to: Path) -> None:
    try:
        with whole_file(to) as into:
            into.write(exported(found).encode() + b"\n")
    except OSError as error:
        raise UserError("cannot write the export", where=to, why=error.strerror or str(error)) from error
    click.echo(
        f"wrote {counted(len(found.predictions), 'prediction')} to {printable(str(to))}\n"
        "It holds dates, rules, predicted and achieved speedups, GPU or CPU models, counts of ranks and versions; no "
        "paths, hosts, scripts or networks. `about` in it explains every field."
    )


def _unusable(error: OSError) -> UserError:
    why = error.strerror or type(error).__name__
    return UserError("the ledger cannot be used", where=_shown(), why=why, do="fix or remove it")


def _shown() -> str:
    """Path of the promises, as it is printed."""
    try:
        return printable(str(default_folder() / file.NAME))
    except OSError:
        return file.NAME


# The predictions as a file to share, which describes its own content.

ABOUT = {
    "format": "version of the record",
    "date": "the day, in UTC, on which the change was measured",
    "rules": "the rules of diagnose whose change it was; rules of your own are named as you named them",
    "predicted": "[low, likely, high] of the whole step's speedup; null is not predicted",
    "achieved": "[low, measured, high] of it; null is not known",
    "inside": "whether the measured speedup fell in the predicted range",
    "hardware": "model of the GPU or the CPU",
    "ranks": "processes of the job",
    "versions": "of torch, transformers and diagnose, without local labels",
    "source": "the command that measured it",
    "key": "a hash of step times that tells runs apart",
}


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a shared file: no path, host, user, script or network, and no time of day."""

    schema_version: int = 1
    about: dict[str, str]
    promises: tuple[Prediction, ...]


def exported(recorded: RecordedPredictions) -> str:
    """The document, as indented JSON."""
    document = Exported(about=ABOUT, promises=recorded.predictions)
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
