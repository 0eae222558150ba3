"""`--annotations`: what a GitHub workflow shows beside the code of a pull request."""

import os
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import click

from diagnose.diagnosis import Diagnosis

annotations_option: Callable[[Any], Any] = click.option(
    "--annotations", is_flag=True, help="Print GitHub workflow annotations instead of the report."
)


def print_annotations(diagnosis: Diagnosis) -> None:
    """The findings, at lines of files below the working folder."""
    from diagnose.report.annotations import annotations

    for line in annotations(diagnosis, here):
        click.echo(line)


def here(file: str) -> str:
    """The longest end of a path of the training's machine that is a file below the working folder, "" without one."""
    parts = PurePosixPath(file.replace("\\", "/")).parts
    if ".." in parts or "\0" in file:
        return ""
    ends = (PurePosixPath(*parts[i:]) for i in range(len(parts)) if parts[i] != "/")
    return next((str(end) for end in ends if os.path.isfile(end)), "")
