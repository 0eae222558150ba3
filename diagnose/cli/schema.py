"""`diagnose schema`: the shape of the JSON output."""

import json

import click

from diagnose import diagnosis
from diagnose.cli.exit_status import writing
from diagnose.predict import scaling


@click.command(epilog="Example:  diagnose schema > diagnosis.schema.json")
@click.option("--of", type=click.Choice(["analyze", "scaling"]), default="analyze", help="Of which command's --json.")
def schema(of: str) -> None:
    """Print the JSON Schema of `analyze --json`, or of another command's."""
    described = scaling.schema() if of == "scaling" else diagnosis.schema()
    with writing():
        click.echo(json.dumps(described, indent=2))
