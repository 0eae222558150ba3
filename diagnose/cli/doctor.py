"""`diagnose doctor`: what a capture can see here."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import click
from rich.text import Text

from diagnose.capture.doctor import checks
from diagnose.cli.command import Command
from diagnose.cli.exit_status import writing
from diagnose.cli.settings import working_folder
from diagnose.cli.terminal import terminal
from diagnose.report.text.page import Page, joined
from diagnose.report.views.plain import plain

_STYLE = {"ok": "green", "warn": "bold yellow", "unknown": "dim"}


@click.command(cls=Command, epilog="Example:  diagnose doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with name, state and text of each check.")
def doctor(as_json: bool) -> None:
    """Say what a capture can see on this machine: torch, GPU events, NVML, other profilers, disk, versions.

    Imports torch and, where there is a GPU, profiles one kernel on it, in a process of its own.
    """
    made = checks(working_folder() or Path(), os.environ)
    with writing():
        if as_json:
            click.echo(json.dumps({"checks": [asdict(check) for check in made]}, indent=2))
            return
        page = Page(terminal())
        for check in made:
            says = joined([Text(check.state.ljust(7), _STYLE[check.state]), plain(check.says)], gap="  ")
            page.paragraph(says, label=f"{check.name}:")
