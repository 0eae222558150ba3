"""`diagnose schema`: the shape of the JSON output."""

import json

import click

from diagnose import diagnosis
from diagnose.cli.exit_status import writing


@click.command(epilog="Example:  diagnose schema > diagnosis.schema.json")
def schema() -> None:
    """Print the JSON Schema of `analyze --json`."""
    with writing():
        click.echo(json.dumps(diagnosis.schema(), indent=2))
