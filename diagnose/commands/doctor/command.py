"""`diagnose doctor`: what a capture can see here."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from diagnose.cli.command import Command
from diagnose.cli.forms import json_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.settings import working_folder
from diagnose.commands.doctor.answer import Checked
from diagnose.commands.doctor.checks import checks
from diagnose.commands.doctor.text import render


@click.command(cls=Command, epilog="Example:  diagnose doctor")
@json_option(says="Print one JSON object with name, state and text of each check.")
def doctor(**given: Any) -> None:
    """Check what this machine lets diagnose record.

    Imports torch and, where there is a GPU, profiles one kernel on it, in a process of its own.
    """
    answer = Checked(checks=tuple(checks(working_folder() or Path(), os.environ)))
    give(answer, Forms(text=partial(render, answer)), given)
