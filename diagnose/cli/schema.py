"""`diagnose schema`: the shape of the JSON output."""

import json

import click

from diagnose import diagnosis
from diagnose.cli.exit_status import writing
from diagnose.diagnosis import comparison_schema
from diagnose.predict import scaling


@click.command(epilog="Example:  diagnose schema > diagnosis.schema.json")
@click.option(
    "--of", type=click.Choice(["analyze", "compare", "scaling"]), default="analyze", help="Of which command's --json."
)
def schema(of: str) -> None:
    """Print the JSON Schema of `analyze --json`, or of another command's."""
    described = {"analyze": diagnosis.schema, "compare": comparison_schema, "scaling": scaling.schema}[of]()
    with writing():
        click.echo(json.dumps(described, indent=2))
