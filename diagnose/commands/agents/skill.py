"""`diagnose skill`: the SKILL.md by which a coding agent learns to use diagnose."""

import os
from pathlib import Path

import click

from diagnose.cli.command import Command, Option
from diagnose.cli.exit_status import writing
from diagnose.cli.forms import out_option
from diagnose.cli.giving import write_file
from diagnose.errors import UserError

_TEXT = Path(__file__).with_name("SKILL.md")
_NAME = "diagnose"  # of the skill, which agents look up in a folder of that name


@click.command(cls=Command, epilog="Example:  diagnose skill --out .agents/skills")
@out_option(f"Write {_NAME}/{_TEXT.name} into this folder instead of printing it.", metavar="FOLDER")
@click.option("--force", cls=Option, needs="out", is_flag=True, help=f"Replace the {_TEXT.name} that is there already.")
def skill(out: Path | None, force: bool) -> None:
    """Print a SKILL.md that teaches coding agents to use diagnose.

    It says how to capture, read, explain, apply and compare, what never to do, and how to read what is unknown. Agents
    look for it in a folder of skills.

    \b
    Exit codes:
      0    it was printed or written
      2    wrong usage
      3    it cannot be written, or there is one already
      70   a bug in diagnose
      130  interrupted
    """
    if out is not None:
        _write(out / _NAME / _TEXT.name, force)
        return
    with writing():
        click.echo(_TEXT.read_text(encoding="utf-8"), nl=False)


def _write(to: Path, force: bool) -> None:
    if os.path.lexists(to) and not force:
        raise UserError(
            "the skill is not written", where=to, why="it is there already", do="pass --force to replace it"
        )
    write_file(to, _TEXT.read_bytes(), "the skill", in_new_folder=True)
