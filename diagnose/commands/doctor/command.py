"""`diagnose doctor`: what a capture can see here, and what this machine reaches."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from diagnose.cli.command import Command, Option
from diagnose.cli.forms import json_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.settings import working_folder
from diagnose.commands.doctor.answer import Checked
from diagnose.commands.doctor.checks import checks
from diagnose.commands.doctor.text import render


@click.command(cls=Command, epilog="Example:  diagnose doctor")
@click.option(
    "--measure",
    is_flag=True,
    help="Measure instead, in about a minute, what this machine reaches: products, memory, copies, an all-reduce of "
    "local ranks, the disk. Rates of a GPU are kept for MFU, rooflines and fit --calibrate.",
)
@click.option(
    "--model",
    cls=Option,
    needs="measure",
    because="without it nothing is computed",
    metavar="MODEL",
    help="Measure the products of this model: a config.json, its folder, or a name such as Llama-3.2-1B.",
)
@json_option(says="Print one JSON object with name, state and text of each check, or the measured rates.")
def doctor(measure: bool, model: str | None, **given: Any) -> None:
    """Check what this machine lets diagnose record.

    Imports torch and, where there is a GPU, profiles one kernel on it, in a process of its own.
    """
    folder = working_folder() or Path()
    if measure:
        _measure(model, folder, given)
        return
    answer = Checked(checks=tuple(checks(folder, os.environ)))
    give(answer, Forms(text=partial(render, answer)), given)


def _measure(model: str | None, folder: Path, given: dict[str, Any]) -> None:
    from diagnose.cli.measured_machines import keep
    from diagnose.commands.doctor.measured_text import render_measured
    from diagnose.commands.doctor.measuring import measured

    name, shape = _shape(model)
    machine = measured(name, shape, folder, os.environ)
    not_kept = keep(machine) if machine.device else "only rates of GPUs are used again"
    give(Checked(checks=(), measured=machine), Forms(text=partial(render_measured, machine, not_kept)), given)


def _shape(model: str | None) -> tuple[str, Any]:
    if model is None:
        return "", None
    from diagnose.commands.fit.models import model_from

    return model_from(model)
