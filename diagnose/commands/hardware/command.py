"""Command: the limits of every known GPU, with their sources."""

from functools import partial
from typing import Any

import click

from diagnose.cli.command import Command
from diagnose.cli.forms import json_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.names import gpus
from diagnose.commands.hardware.answer import devices
from diagnose.commands.hardware.devices import matching
from diagnose.commands.hardware.text import render_all, render_each
from diagnose.hardware import table


@click.command(cls=Command, epilog="Example:  diagnose hardware h100")
@click.argument("name", required=False, shell_complete=gpus)
@json_option("the devices")
def hardware(name: str | None, **given: Any) -> None:
    """List the known GPUs with their peaks, bandwidth and sources.

    NAME is a part of a key or of the name that torch reports, in any case; its matches are shown in full.
    """
    gpus, render = (table(), render_all) if name is None else (matching(name), render_each)
    give(devices(gpus), Forms(text=partial(render, gpus)), given)
