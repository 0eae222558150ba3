"""`diagnose schema`: the shape of the JSON output."""

import json

import click

from diagnose.cli.command import Command
from diagnose.cli.exit_status import writing
from diagnose.commands.schema.registered import answer_of, answering


@click.command(cls=Command, epilog="Example:  diagnose schema > diagnosis.schema.json")
@click.option(
    "--of",
    type=click.Choice(answering()),
    default="analyze",
    help="Whose --json to describe.",
)
def schema(of: str) -> None:
    """Print the JSON Schema of `analyze --json`, or of another command's --json."""
    with writing():
        click.echo(json.dumps(answer_of(of).schema(), indent=2))
