"""`diagnose schema`: the shape of the JSON output.

The commands whose JSON has a schema: having an `answer.py` registers a command.
"""

import json
from importlib import import_module
from pathlib import Path

import click

from diagnose import commands
from diagnose.cli.command import Command
from diagnose.cli.exit_status import writing
from diagnose.diagnosis.answer import Answer

_FOLDER = Path(commands.__path__[0])


def answering() -> list[str]:
    """The commands with an answer, by name; none of them is imported."""
    return sorted(file.parent.name for file in _FOLDER.glob("*/answer.py"))


def answer_of(command: str) -> type[Answer]:
    """The answer class that the command's module defines, or imports from another package."""
    module = import_module(f"diagnose.commands.{command}.answer")
    kinds = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Answer)]
    named = [one for one in kinds if one is not Answer]
    (answer,) = [one for one in named if one.__module__ == module.__name__] or named
    return answer


@click.command(cls=Command, epilog="Example:  diagnose schema > diagnosis.schema.json")
@click.option(
    "--of",
    type=click.Choice(answering()),
    default="analyze",
    help="Describe the --json of this command.",
)
def schema(of: str) -> None:
    """Print the JSON Schema of the outputs."""
    with writing():
        click.echo(json.dumps(answer_of(of).schema(), indent=2))
