"""`diagnose schema`: the shape of the JSON output."""

import json

import click

from diagnose import diagnosis
from diagnose.cli.command import Command
from diagnose.cli.exit_status import writing
from diagnose.commands.armed import answer as armed
from diagnose.commands.compare.answer import comparison_schema
from diagnose.commands.data import answer as data_pipeline
from diagnose.commands.fleet.answer import fleet_schema
from diagnose.commands.hang import answer as hang
from diagnose.commands.ledger import tally
from diagnose.commands.memory import answer as memory
from diagnose.commands.scaling import answer as scaling
from diagnose.commands.series import answer as series

_OF = {
    "analyze": diagnosis.schema,
    "armed": armed.schema,
    "series": series.schema,
    "compare": comparison_schema,
    "data": data_pipeline.schema,
    "scaling": scaling.schema,
    "ledger": tally.schema,
    "hang": hang.schema,
    "memory": memory.schema,
    "fleet": fleet_schema,
}


@click.command(cls=Command, epilog="Example:  diagnose schema > diagnosis.schema.json")
@click.option(
    "--of",
    type=click.Choice(list(_OF)),
    default="analyze",
    help="Whose --json to describe.",
)
def schema(of: str) -> None:
    """Print the JSON Schema of `analyze --json`, or of another command's --json."""
    with writing():
        click.echo(json.dumps(_OF[of](), indent=2))
