"""`diagnose doctor`: what a capture can see here."""

import os
from pathlib import Path

import click
from rich.text import Text

from diagnose.capture.doctor import checks
from diagnose.cli.exit_status import writing
from diagnose.cli.settings import working_folder
from diagnose.cli.terminal import terminal
from diagnose.report.text.page import Page, joined
from diagnose.report.views.plain import plain

_STYLE = {"ok": "green", "warn": "bold yellow", "unknown": "dim"}


@click.command(epilog="Example:  diagnose doctor")
def doctor() -> None:
    """Say what a capture can see on this machine: torch, GPU events, NVML, other profilers, disk, versions.

    Imports torch and, where there is a GPU, profiles one kernel on it, in a process of its own.
    """
    with writing():
        page = Page(terminal())
        for check in checks(working_folder() or Path(), os.environ):
            says = joined([Text(check.state.ljust(7), _STYLE[check.state]), plain(check.says)], gap="  ")
            page.paragraph(says, label=f"{check.name}:")
